"""Documents of the program, generated from docs/schema by generate.py: do not edit.

Money is a Decimal, exact to the nano-dollar. Times are texts in RFC 3339. None means unknown or not applicable, never zero.
"""

from __future__ import annotations

from .record import Document, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal as Money
    from typing import Any, Literal

    Availability = Literal["unknown", "listed", "seen", "sold-out"]
    Bound = Literal["compute", "memory-bandwidth", "launch", "gpu-link", "network", "pipeline", "input"]
    Cause = Literal["program", "machine"]
    EvidenceKind = Literal["price", "fallback-price", "side-charges", "place-list", "spot-statistics", "placement-score", "obtainability", "estimated-uptime", "preemption-history", "eviction-rate", "own-launches", "quota"]
    FixKind = Literal["format", "gpu-decode", "stage", "more-vcpus", "fewer-gpus"]
    Item = Literal["machines", "disk", "checkpoint-storage", "egress", "tax", "other", "fallback", "lost-work", "unused-commitment", "credit"]
    MachineState = Literal["starting", "running", "ending", "gone"]
    Origin = Literal["live", "cached", "snapshot", "estimate", "user"]
    Precision = Literal["fp32", "fp8", "mxfp8", "nvfp4", "tf32", "fp16", "amp-fp16", "bf16", "pure-bf16"]
    ProcessingTask = Literal["processing"]
    PurchaseTerms = Literal["on-demand", "spot", "spot-with-fallback", "commitment", "capacity-block", "calendar", "flex-start", "reserved"]
    Recompute = Literal["none", "selective", "full", "offload"]
    Regime = Literal["compute", "pipeline", "launch", "encoder-or-single-precision", "network", "adapters", "vision"]
    RejectionReason = Literal["policy", "not-offered", "price-suspect", "price-stale", "no-capacity", "no-network", "memory", "layout", "latency", "availability", "unsupported", "deadline", "max-price", "budget", "dominated", "other"]
    Role = Literal["cheapest", "recommended", "fastest"]
    Rule = Literal["loader", "host-bound", "memory-full-but-idle", "room-for-batch", "small-shapes", "unaligned-shapes", "no-tensor-cores", "fp32", "no-loss-scaler", "pageable-copies", "synchronisation", "exposed-communication", "throttled-by-power", "throttled-by-heat", "straggler", "pcie-link", "idle"]
    RuleKind = Literal["min-chance", "price-age", "max-spent"]
    RuleOrigin = Literal["portfolio", "policy"]
    RunPhase = Literal["running", "staging", "draining"]
    RunState = Literal["running", "completed", "failed", "stopped", "launching", "interrupted"]
    Shard = Literal["none", "zero1", "zero2", "zero3", "hsdp"]
    StoredFormat = Literal["bf16", "fp8", "int8", "int4", "mxfp4", "nvfp4"]
    Suspicion = Literal["spot-above-on-demand", "far-from-median", "sources-disagree", "zone-unverified", "place-unknown", "zone-outlier", "local-zone", "bid-floor", "estimated", "not-repeated"]
    Task = Literal["pretrain", "full-fine-tune", "lora", "qlora", "inference", "inference-prefill", "train", "train-fwd-bwd"]
    Unknown = Literal["unknown"]
    Verdict = Literal["kept", "broken", "approved", "warned"]
    WorkBound = Literal["cpu", "network", "storage"]


class Approval(Record):
    """Who allows that a rule is broken."""
    by: str
    until: str
    """The first moment at which it no longer counts."""


class AskedProcessing(Record):
    """What is done to the data."""
    samples: float
    """Samples in all."""
    cpu_seconds_per_sample: float | None
    """Of one core; `null` where nobody knows."""
    reads_bytes: float
    """All samples together."""
    writes_bytes: float
    """All results together."""
    shard_seconds: float
    """Work that is stored together, and lost together where a machine is taken back."""


class AskedServing(Record):
    """What is asked of a model that answers requests: a service (a rate, for hours) or a job (a number of requests)."""
    requests_per_second: float | None
    """Of a service; `null` for a job."""
    hours: float | None
    """Of a service; `null` for a job."""
    requests: float | None
    """Of a job; `null` for a service."""
    prompt_tokens: int
    """Tokens of a request."""
    answer_tokens: int
    """Tokens of an answer; 0 for models that answer in one pass."""
    time_to_first_token_seconds: float | None
    """Nine of ten requests see their first token by then."""
    time_per_token_seconds: float | None
    """Mean time between two tokens of an answer."""
    weights: StoredFormat
    """How weights are stored."""
    kv_cache: StoredFormat
    """How keys and values are stored."""
    availability: float
    """Share of time that as many replicas run as the load needs."""
    images: Sampling | None
    """How a diffusion model makes an image; absent of other models."""
    audio: Transcription | None
    """Sound of a request, of a model that hears; absent of other models."""
    _kinds = {"images": "Sampling", "audio": "Transcription"}


class Band(Record):
    """A prediction: 10th percentile, best guess, 90th percentile, in the unit that the field's name says."""
    low: float
    expected: float
    high: float


class BestCommitment(Record):
    """The numbers of machines that save most beyond what they cost, of up to twice as many as there are."""
    nodes: list[int]
    """Machines, in the order of `pools`; own machines are as many as they are."""
    paid_usd: Money
    """Cash for committed machines, used or not."""
    saved_usd: Money
    """Of rent, against holding none at all."""
    net_usd: Money
    """What is saved beyond what is paid; negative: renting everything is cheaper, and own machines do not make up for it."""
    net_usd_now: Money
    """The same with the machines as they are now."""
    most_net_usd: Money
    """No numbers save more than this."""
    rented_on_spot_usd: Money
    """What is rented beside them on spot and on demand."""
    rented_on_demand_usd: Money
    _kinds = {"paid_usd": "Money", "saved_usd": "Money", "net_usd": "Money", "net_usd_now": "Money", "most_net_usd": "Money", "rented_on_spot_usd": "Money", "rented_on_demand_usd": "Money"}


class BillLineRecord(Record):
    """One line of a bill: `cost_usd` is `quantity` times `unit_price_usd`, rounded once to the nano-dollar."""
    item: str
    """What is paid for, such as `machines`, `on-demand fallback` or `network disk`."""
    quantity: float
    """In units of `unit`."""
    unit: str
    """Such as `machine-hour` or `GB`."""
    unit_price_usd: Money
    """Price of one unit."""
    cost_usd: Money
    """Cost of the line."""
    basis: str
    """Where the price, or for lost work the risk, comes from."""
    _kinds = {"unit_price_usd": "Money", "cost_usd": "Money"}


class BudgetLine(Record):
    """One amount of one month."""
    id: str
    """The same in every budget of this portfolio, so that two can be compared."""
    run: str | None
    phase: str | None
    team: str | None
    """Null: all teams share it."""
    month: str
    item: Item
    cloud: str
    region: str | None
    zone_id: str | None
    instance_type: str | None
    gpu: str | None
    gpus_per_node: int | None
    purchase: str | None
    quantity: float
    unit: str
    unit_price_usd: Money
    cost_usd: Money
    cost_in_currency: str | None
    """The same in the currency of `exchange`: all lines together are the total in it, to the billionth. Absent: dollars."""
    list_usd: Money | None
    """What the same machines would cost on demand, where a commitment covers them or they are on spot; absent elsewhere, and where it is
    not known."""
    p50_usd: Money
    """Percentiles of this line alone; those of several do not add up."""
    p90_usd: Money
    source: str
    """Of the price."""
    priced_at: str | None
    assumption: str
    tags: dict[str, str] | None
    _kinds = {"unit_price_usd": "Money", "cost_usd": "Money", "list_usd": "Money", "p50_usd": "Money", "p90_usd": "Money"}


class BudgetQuantiles(Record):
    """A figure under risk: mean, median and 90th percentile."""
    expected: Money
    p50: Money
    p90: Money
    _kinds = {"expected": "Money", "p50": "Money", "p90": "Money"}


class BudgetQuantiles2(Record):
    """A figure under risk: mean, median and 90th percentile."""
    expected: str
    p50: str
    p90: str


class BudgetTotal(Record):
    """The whole cost, and how likely it stays within the budget."""
    cost_usd: BudgetQuantiles
    cost_in_currency: BudgetQuantiles2 | None
    """The same in the currency of `exchange`; absent: dollars."""
    budget_usd: Money | None
    """Null: none is stated."""
    chance_within_budget: float | None
    saved_usd: Money | None
    """What spot and commitments save against renting the same machines on demand, less what is paid of commitments and not used; null: no
    such price is known."""
    chance_if_independent: float | None
    """The same if the errors of the estimates of different workloads had nothing in common; null without a budget."""
    chance_if_common: float | None
    """The same if they were one error; null without a budget."""
    mean_of_draws_usd: Money
    """Mean of the draws. It is above the total where estimates are uncertain: a plan states the middle of its estimate."""
    price_age: PriceAge
    _kinds = {"cost_usd": "BudgetQuantiles", "cost_in_currency": "BudgetQuantiles2", "budget_usd": "Money", "saved_usd": "Money", "mean_of_draws_usd": "Money", "price_age": "PriceAge"}


class CheckpointRecord(Record):
    """Saving: how much, how often, and how long it takes."""
    bytes: float
    """Of one checkpoint."""
    interval_seconds: float
    """Between two checkpoints."""
    upload_seconds: float
    """Until the copy is in the bucket."""
    stall_seconds: float
    """That training stands still."""
    notice: NoticeRecord | None
    """For spot machines whose cloud warns before it takes them back."""
    _kinds = {"notice": "NoticeRecord"}


class ChoiceRecord(Record):
    """One of the cheapest, the recommended and the fastest plan that is sensible."""
    roles: list[Role]
    """What it is picked for; one plan may be several."""
    plan: str
    """Its identity: it stands in `frontier`."""
    work_hours: float
    """Of training with what saving and failures of machines take, without waiting and interruptions."""
    wait_hours: float
    """Everything else until the result: starting and waiting for machines, interruptions and what they cost."""
    run_hours: Quantiles
    """Hours from the request to the result."""
    finish_at: str | None
    """When the result is expected, if it is started when the plan is made."""
    cost_usd: Quantiles2
    """Of the whole run, as expected today."""
    why: Remark
    """Why somebody would take it."""
    _kinds = {"run_hours": "Quantiles", "cost_usd": "Quantiles2", "why": "Remark"}


class CommitmentFigures(Record):
    """How a commitment fares in the portfolio."""
    name: str
    kind: str
    """`reservation` or `savings-plan`."""
    paid_usd: Money
    used_usd: Money
    saved_usd: Money
    """What the hours it covers would cost on demand, less what is paid; negative: it loses."""
    break_even_use: float | None
    """Share of what is paid that has to be used for it to pay; unknown while nothing in the portfolio could use it."""
    expected_use: float
    break_even_hours_per_month: float | None
    """Hours of a month that its machines must be used for it to pay."""
    chance_of_loss: float
    """In this share of the draws it costs more than it saves."""
    assumption: str
    _kinds = {"paid_usd": "Money", "used_usd": "Money", "saved_usd": "Money"}


class CostBar(Record):
    """Draws of a forecast that cost from `from_usd` to `to_usd`."""
    from_usd: Money
    """Lower edge, included."""
    to_usd: Money
    """Upper edge, included in the last bar alone."""
    share: float
    """Of all draws."""
    _kinds = {"from_usd": "Money", "to_usd": "Money"}


class CostGroup(Record):
    """Part of all cost that falls to one month, team, cloud or GPU."""
    name: str
    cost_usd: BudgetQuantiles
    budget_usd: Money | None
    chance_within_budget: float | None
    """That the cost stays within the budget."""
    _kinds = {"cost_usd": "BudgetQuantiles", "budget_usd": "Money"}


class CostQuantiles(Record):
    expected: Money
    p50: Money
    p75: Money
    p90: Money
    _kinds = {"expected": "Money", "p50": "Money", "p75": "Money", "p90": "Money"}


class Counts(Record):
    """How much was looked at."""
    offers: int
    """Offers of the market."""
    shapes: int
    """Different machines, each with a number of them."""
    layouts_estimated: int
    """Layouts whose memory and time were estimated."""
    candidates: int
    """Plans that were priced or refused."""


class CumulativeCost(Record):
    """Everything until the end of a month."""
    month: str
    cost_usd: BudgetQuantiles
    _kinds = {"cost_usd": "BudgetQuantiles"}


class EnergyRecord(Record):
    """Electricity of all machines over all hours that they are rented, and what it emits."""
    kwh: Band
    """Kilowatt-hours with cooling and what else the building uses."""
    gpu_rated_watts: float
    """Rated power (TDP) of one GPU, of which a whole machine draws 1.5 times (0.85 to 1.6)."""
    pue: PueRecord | None
    """Energy of the building over that of its machines; `null`: nobody publishes it, and 1.25 (1.04 to 1.63) was taken."""
    grid: GridRecord | None
    """The electricity; `null`: it is not known from which grid it comes, or what that emits."""
    co2e_kg: Band | None
    """Kilograms of CO2-equivalents by location, without what a cloud buys to match its consumption; `null`: unknown."""
    _kinds = {"kwh": "Band", "pue": "PueRecord", "grid": "GridRecord", "co2e_kg": "Band"}


class Evidence(Record):
    """Something that a plan rests on, and how old it is."""
    kind: EvidenceKind
    """What it is about."""
    source: str | None
    """Id of the source; `null`: nobody said anything, and the plan does without."""
    observed_at: str | None
    """When it was said; `null`: nobody kept it, or nobody said anything."""
    age_hours: float | None
    """From then to the plan."""


class Exchange(Record):
    """A currency at its rate."""
    currency: str
    """ISO 4217, such as `EUR`."""
    usd_per_unit: Money
    """US dollars for one unit."""
    source: str
    """Of the rate, in the words of the portfolio."""
    as_of: str
    """Day of the rate."""
    _kinds = {"usd_per_unit": "Money"}


class FailedLine(Record):
    """A run of a sweep that failed."""
    index: int
    """From 0."""
    run: str
    why: str | None


class FindingRecord(Record):
    """Something that a profile found, and what mending it would save of the recommended plan."""
    rule: Rule
    evidence: str
    """What was measured, in words and figures."""
    measured: float
    threshold: float
    """The rule speaks beyond this."""
    advice: str
    cause: Cause
    mended: dict[str, Any]
    saves_usd: Money | None
    """At best; `null`: see `why_unpriced`."""
    saves_hours: float | None
    """At best; `null`: see `why_unpriced`."""
    why_unpriced: str | None
    """Why nobody can say what it would save."""
    _kinds = {"saves_usd": "Money"}


class FixRecord(Record):
    """One change that would shorten the waiting, by itself; savings of several do not add up."""
    cure: FixKind
    """What kind of change."""
    what: str
    """The change in words."""
    waiting_share: float
    """Share of a step that still waits for samples."""
    run_hours: float
    """Hours of the whole run with the change, as a first guess."""
    saves_usd: Money
    """Against the plan as it is, both as first guesses; below zero it costs more."""
    _kinds = {"saves_usd": "Money"}


class Footprint(Record):
    """All machines that runs use, over the hours that are paid. What is held and not used is not in it. Errors are taken to be one: limits
    add up."""
    kwh: Band
    """Kilowatt-hours with cooling and what else the buildings use."""
    co2e_kg: Band | None
    """Of all of `kwh` whose grid is known, kilograms of CO2-equivalents by location; null: it is known of none."""
    kwh_of_unknown_grids: float
    """Of `kwh`, as expected, what comes from a grid that is not known."""
    machine_hours_of_unknown_gpus: float
    """Hours of machines of which the GPU is not stated or not known; they are in no other figure."""
    phases: list[PhaseFootprint]
    """Most emissions first, then most electricity."""
    _kinds = {"kwh": "Band", "co2e_kg": "Band", "phases": "PhaseFootprint"}


class Forecast(Record):
    """Keys as scripts read them."""
    cost_usd: CostQuantiles
    """Of machines alone."""
    finish_hours: Quantiles
    wait_hours: Quantiles
    """Until the first machine runs."""
    chance_by_deadline: float
    on_demand_hours: float
    """Mean hours on on-demand machines."""
    spot_hours: float
    """Mean hours on spot machines."""
    interruptions: float
    """Mean number of spot machines taken away."""
    _kinds = {"cost_usd": "CostQuantiles", "finish_hours": "Quantiles", "wait_hours": "Quantiles"}


class GridRecord(Record):
    """What electricity of a grid emits."""
    zone: str
    """Zone of Electricity Maps, such as `US-MIDA-PJM`."""
    g_co2e_per_kwh: Band
    """Grams of CO2-equivalents a kWh: from what power plants emit to that with fuel supply and building."""
    sources: list[str]
    """Ids of its sources."""
    _kinds = {"g_co2e_per_kwh": "Band"}


class HeldMachines(Record):
    """What the runs of a portfolio use of the machines that are held, before tax but for `full_cost_usd`."""
    pools: list[PoolFigures]
    full_cost_usd: Money
    """The expected total, which is cash, and what own machines lose in value in these months, used or not."""
    less_work: float
    """Work of one of ten outcomes, as part of what is expected: `net_usd_with_less_work` rests on it."""
    saved_usd: Money
    """Against renting everything, beside what is paid anyway."""
    most_saved_usd: Money
    """No assignment of runs to these machines saves more than this."""
    best: BestCommitment | None
    """How many machines of all committed pools together save most; absent: nothing is committed to."""
    best_with_less_work: BestCommitment | None
    """The same where every run needs only as much as in one of ten outcomes."""
    rule: str
    """How runs and machines were brought together."""
    _kinds = {"pools": "PoolFigures", "full_cost_usd": "Money", "saved_usd": "Money", "most_saved_usd": "Money", "best": "BestCommitment", "best_with_less_work": "BestCommitment"}


class InputRecord(Record):
    """Seconds are those of a machine for the samples of one step."""
    limit: str
    """The slowest part, whether or not the step waits for it: `cpu decode`, `cpu tokenise`, `storage`, `host to device` or `gpu decode`."""
    samples_per_step: float
    """Samples of a step on one machine."""
    compute_seconds: float | None
    """Of the loader on the CPUs; `null` where nobody said what a sample costs."""
    read_seconds: float | None
    """Of storage; `null` where reading was not counted."""
    storage: str | None
    """What is read, where that was counted."""
    read_share: float
    """Part of the run in which storage is read: memory keeps what was read once."""
    copy_seconds: float
    """From the host to the GPUs."""
    gpu_decode_seconds: float
    """In the decoder block of the GPUs."""
    loader_threads: float
    """Threads of the loader on one machine."""
    vcpus_per_gpu: float
    """That the machine has."""
    vcpus_needed_per_gpu: float | None
    """That would load as fast as the GPUs train, with the same loader."""
    wait_seconds: float
    """What a step waits for samples."""
    wait_share: float
    """The same as a share of a step."""
    waiting_gpu_hours: float
    """GPU-hours of the run that are spent waiting."""
    waiting_cost_usd: Money
    """What those cost."""
    cures: list[FixRecord] | None
    """What would shorten the waiting; of the recommended plan."""
    _kinds = {"waiting_cost_usd": "Money", "cures": "FixRecord"}


class InputsRecord(Record):
    """What an answer rests on: hashes of catalog, prices and measurements, and the seed of all draws."""
    catalog_sha256: str
    """Of the catalog of machines and models."""
    offers_sha256: str
    """Of the prices."""
    constants_version: str
    """Version of the fitted constants of the estimate."""
    measured_sha256: str | None
    """Of the calibrations and profiles that corrected the estimate."""
    own_runs: list[OwnRun] | None
    """The user's own finished runs that the time goes by."""
    own_pools: list[OwnPool] | None
    """What the user's own launches saw of pools of spot machines."""
    quotas: list[KnownQuota] | None
    """What the user's accounts may run, as their clouds last said it."""
    policy_sha256: str | None
    """Of the organisation's `policy.toml`."""
    seed: int
    """Of every draw."""
    _kinds = {"own_runs": "OwnRun", "own_pools": "OwnPool", "quotas": "KnownQuota"}


class InterruptionRate(Record):
    """Spot machines that are taken back within a month, percent."""
    monthly_percent_low: int
    monthly_percent_high: int
    observed_at: str
    source: str


class JobComparison(Record):
    """An existing job beside the recommended plan, as `plan --from JOB` writes it."""
    job: JobRecord
    baseline: PlanRecord | None
    """The plan on the job's own machines; null: none of them can run the workload."""
    difference: PlanDifference | None
    """The recommended plan less the baseline."""
    _kinds = {"job": "JobRecord", "baseline": "PlanRecord", "difference": "PlanDifference"}


class JobRecord(Record):
    """What a job asks for, and what of its file was understood."""
    kind: str
    """The engine that the job was written for, such as `slurm`, `skypilot` or `kubernetes`; `script` has none, `recipe` is the
    configuration of a training program."""
    name: str | None
    asks_for: list[str]
    """One sentence for each kind of machine that it accepts."""
    nodes: NodeRange | None
    """Machines; null: as many as hold the GPUs."""
    hours: float | None
    """The longest that it may take."""
    understood: list[KeyRecord]
    no_effect: list[KeyRecord]
    """Keys that change neither machines nor price."""
    not_understood: list[KeyRecord]
    assumed: list[str]
    """What the job leaves open and what was taken, as sentences."""
    assumptions: list[Remark]
    """The same with their figures, in the same order."""
    _kinds = {"nodes": "NodeRange", "understood": "KeyRecord", "no_effect": "KeyRecord", "not_understood": "KeyRecord", "assumptions": "Remark"}


class KeyRecord(Record):
    """A key of the job's file and its value, as they stand there."""
    key: str
    value: str


class KnownQuota(Record):
    """A limit of an account, and when its cloud said it."""
    cloud: str
    account: str
    """Number of the account or name of the project."""
    region: str
    """`global`: of all regions together."""
    code: str
    """As the cloud names it, such as `L-7212CCBC`."""
    name: str
    unit: str
    """What it counts, such as `vCPUs`."""
    limit: float | None
    """`null`: there is none."""
    used: float | None
    """What ran when the cloud said it; `null` where it did not say."""
    asked_at: str


class LastSeen(Record):
    """How a pool was when it was last seen."""
    is_up: bool
    """Whether it had machines."""
    age_hours: float
    """For how long it is known to have been so by then. Hours."""
    hours_ago: float
    """Hours."""


class LatencyRecord(Record):
    """Seconds over requests. Of a job, from the moment that a request begins."""
    ttft: Quantiles
    """To the first token."""
    per_token: Quantiles
    """The mean over an answer, which is the same for all; zero where an answer has no tokens."""
    per_token_band: Band | None
    """How far the estimate of `per_token` may be off: what a pass takes, at the same number of sequences; absent where an answer has no
    tokens."""
    _kinds = {"ttft": "Quantiles", "per_token": "Quantiles", "per_token_band": "Band"}


class Layout(Record):
    """Degrees of each kind of parallelism; their product with `data` is the number of GPUs."""
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    virtual_pipeline: int
    shard: Shard
    shard_group: int | None
    """Ranks a state is split over where that is not all of them."""
    sequence_parallel: bool


class LayoutRecord(Record):
    """How the model is spread over the GPUs, and what each works on at once."""
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    virtual_pipeline: int
    shard: Shard
    shard_group: int | None
    """Ranks a state is split over where that is not all of them."""
    sequence_parallel: bool
    micro_batch: int
    """Sequences that a GPU works on at once."""
    global_batch: float
    """Sequences of an optimizer step over all GPUs."""
    grad_accumulation: float
    """Micro-steps of an optimizer step."""
    recompute: Recompute
    """Which activations are computed again."""
    uneven_stages: dict[str, Any] | None
    """How layers are dealt out, where the stages of the pipeline cannot all have as many."""
    label: str
    """The degrees in short."""


class LossesRecord(Record):
    """What it means that machines are taken back: the shard in hand is worked on again, by another machine."""
    mean_hours_between: float
    """Mean time of a machine until it is lost."""
    mean_hours_without: float
    """Mean time until there is another."""
    hours_each: float
    """Half a shard and the start of another machine."""
    basis: str
    """Where the means come from."""


class MachineLine(Record):
    """A machine of a run."""
    id: str
    state: MachineState
    pool: str
    """Cloud, zone or region, machine type and terms."""
    epoch: int | None
    """Which start of the run it belongs to."""


class NearRunReport(Record):
    """One published run."""
    id: str
    """Id in `benchmarks/published`."""
    source: str
    distance: float
    """Sum of what sets it apart; 0 is the same, and 2 the most that counts as near."""
    error_percent: float
    """Predicted over measured time, less one."""
    fitted: bool
    """Most constants were fitted on runs of this source, so that its errors are smaller than those of a stranger's run."""


class NearestReport(Record):
    """The published runs that are most like this one, and how far off the estimate is on them."""
    runs: list[NearRunReport]
    """The nearest first, six at most; none where no published run is like this one."""
    median_error_percent: float | None
    """Median of the sizes of their errors; `null` where none is near."""
    closest_distance: float | None
    """Distance of the nearest run of all, near or not; docs/estimate.md has its terms."""
    _kinds = {"runs": "NearRunReport"}


class NodeRange(Record):
    low: int
    high: int


class NoticeRecord(Record):
    """What a warning before an interruption is good for."""
    seconds: float
    """Between the warning and the end of the machine."""
    saves_bytes: float
    """Of a checkpoint that can be safe by then."""
    saves_all: bool
    """That is all of it."""


class OfferLine(Record):
    """A machine at a price."""
    cloud: str
    region: str
    """`any` where the price holds in all of them."""
    zone_id: str | None
    """`null` where the price holds in the whole region."""
    instance_type: str
    """What the cloud calls it."""
    gpu: str
    """Id of the GPU in the catalog."""
    gpu_count: float
    """GPUs of the machine; a fraction where a slice of a card is sold."""
    gpu_memory_gib_each: float
    """Memory of each GPU that software sees, GiB."""
    vcpus: int | None
    """Hardware threads; `null` where the cloud does not say."""
    memory_gib: float | None
    """Main memory, GiB; `null` where the cloud does not say."""
    purchase: str
    """Terms of the purchase, such as `on-demand` and `spot`."""
    rate_usd_per_hour: Money
    """Dollars an hour for the whole machine."""
    rate_usd_per_gpu_hour: Money
    """Dollars an hour for each of its GPUs."""
    origin: Origin
    observed_at: str
    """When the price was seen."""
    source: str
    """Id of the source, in `SNAPSHOT.toml` or of a live answer."""
    interruption: InterruptionRate | None
    """How often spot machines of this kind are taken back; `null` where nobody says."""
    suspect: list[str]
    """Why the price may not be what it says, one word a doubt."""
    _kinds = {"rate_usd_per_hour": "Money", "rate_usd_per_gpu_hour": "Money", "interruption": "InterruptionRate"}


class OtherCloudCost(Record):
    """All times of a phase on the best plan of another cloud that was shown."""
    phase: str
    cloud: str
    plan: str
    cost_usd: BudgetQuantiles
    more_usd: Money
    """Beyond what is planned; negative: less."""
    run_hours: Quantiles3
    """Of one time."""
    _kinds = {"cost_usd": "BudgetQuantiles", "more_usd": "Money", "run_hours": "Quantiles3"}


class OwnPool(Record):
    """A pool in which the user has asked for spot machines."""
    cloud: str
    """Cloud."""
    instance_type: str
    """As the cloud names it."""
    region: str
    """Region."""
    zone_id: str | None
    """`null`: anywhere in the region."""
    machines: int
    """That were asked for at once."""
    starts: int
    """Times that it gave all machines."""
    refusals: int
    """Times that it had none."""
    losses: int
    """Times that it took them back."""
    hours_up: float
    """That it is known to have been up."""
    hours_down: float
    """That it is known to have been down."""
    hours_counted: float
    """Hours of both that still count: what is long ago is forgotten."""
    hours_counted_up: float
    """Of them, those up."""
    age_hours: float
    """Since the latest of it. Hours."""
    last: LastSeen | None
    """How it was then, as far as that is known."""
    _kinds = {"last": "LastSeen"}


class OwnRun(Record):
    """One finished run."""
    run: str
    model: str
    task: str
    framework: str
    gpu: str
    """Id of the catalog."""
    time_ratio: float
    """Time of its work over what the estimate says without any earlier run."""
    same_constants: bool
    """Its forecast was made with the constants of today."""


class PhaseFigures(Record):
    """A phase with what it is expected to cost."""
    phase: str
    team: str
    start: str
    months: int
    repeats: int
    repeats_on_held: int | None
    """Of the repeats, those on machines that are held."""
    plan: str | None
    """Id of its plan; null for stated rates."""
    question: Any
    """What was asked, as a workload file says it, to compare budgets by; absent for stated rates."""
    cloud: str
    gpu: str | None
    nodes: int
    purchase: str
    cost_usd: BudgetQuantiles
    """Of all times together, before tax and after commitments."""
    saved_usd: Money | None
    """Of it, what spot and commitments save against renting the same machines on demand; null: no such price is known."""
    run_hours: Quantiles3
    """Of one time."""
    cost_each_usd: BudgetQuantiles
    """Of one time."""
    gpu_utilization: float | None
    """Share of a step in which the GPUs do the model's work, as it is estimated; null for stated rates."""
    unit_costs: UnitCosts | None
    """Of one time; null: the workload states nothing to count by."""
    _kinds = {"cost_usd": "BudgetQuantiles", "saved_usd": "Money", "run_hours": "Quantiles3", "cost_each_usd": "BudgetQuantiles", "unit_costs": "UnitCosts"}


class PhaseFootprint(Record):
    """Of one phase, all its times together."""
    phase: str
    kwh: Band
    co2e_kg: Band | None
    """Null: of some of its machines it is not known where their electricity comes from."""
    _kinds = {"kwh": "Band", "co2e_kg": "Band"}


class PhaseRecord(Record):
    """What is recommended for one phase."""
    name: str
    """Name of the phase."""
    hands_over_bytes: float | None
    """What the next phase gets from it."""
    deadline_hours: float | None
    """Its part of a deadline of all."""
    recommendation: dict[str, Any] | None
    """The plan of the phase."""
    alternatives: list[dict[str, Any]] | None
    """The cheapest plan of the phase on each other cloud, cheapest first; absent in documents of before it was recorded."""
    notes: list[str]
    """What else is worth knowing, as sentences."""
    warnings: list[Remark] | None
    """The notes with their figures, in the same order."""
    assumed: list[str]
    """What nobody said and was assumed, as sentences."""
    assumptions: list[Remark] | None
    """The same with figures, in the same order."""
    _kinds = {"warnings": "Remark", "assumptions": "Remark"}


class PlanDifference(Record):
    cost_usd: Money
    hours: float
    _kinds = {"cost_usd": "Money"}


class PlanRecord(Record):
    """A way to carry out the workload: machines, how the model is spread over them, how long it takes and what it costs."""
    id: str
    """Identity of the plan, stable between runs: place, machine, count, terms."""
    cloud: str
    """Name of the cloud, such as `aws`."""
    region: str
    """The cloud's name of the region."""
    zone_id: str | None
    """Id of the zone, where prices differ by zone."""
    instance_type: str
    """The cloud's name of the machine."""
    gpu: str
    """Id of the GPU in the catalog."""
    gpus_per_node: int
    """GPUs of one machine; a slice of a card is one."""
    nodes: int
    """Machines."""
    purchase: PurchaseTerms
    """The terms."""
    rate_usd_per_hour: Money
    """Of one machine."""
    price: PriceRecord
    """Where the rate comes from and how old it is."""
    layout: LayoutRecord
    """How the model is spread over the GPUs."""
    step_seconds: Band
    """One optimizer step; of a served model one pass."""
    step_parts: list[StepPart]
    """Where the expected time goes, largest first; what is too small to see is left out."""
    tokens_per_second: Band | None
    """`null` for models that count samples, such as images."""
    samples_per_second: Band
    """Sequences, or images."""
    model_flop_utilization: float
    """Arithmetic of the model over what the GPUs could do at their dense peak."""
    gpu_memory_bytes: Band
    """At the fullest moment, of one GPU."""
    bound_by: str
    """What a step waits for most: `compute`, `memory-bandwidth`, `launch`, `gpu-link`, `network`, `pipeline` or `input`; of input also
    which part, such as `input: cpu decode`."""
    gpu_utilization: Band
    """Share of a step in which the GPUs do the model's work."""
    input: InputRecord | None
    """How the machines bring samples to the GPUs; absent where nobody could tell."""
    wait_hours: Unknown | dict[str, Any]
    """Hours until the first machine runs."""
    run_hours: Quantiles
    """Hours from the request to the last save."""
    gpu_hours: float | None
    """Of undisturbed training."""
    beside_steps_hours: float | None
    """Hours of the job beside its training steps, where the workload states `training.overhead`; `run_hours` holds them."""
    cost_usd: Quantiles2
    """Of the whole run. For machines that the user has already it is marginal cash."""
    full_cost_usd: Money | None
    """For machines that the user has already: the same run at what they cost whether used or not."""
    bill: list[BillLineRecord]
    """Lines that add up to `cost_usd.expected` to the nano-dollar."""
    energy: EnergyRecord | None
    """Electricity of the machines, and what it emits; absent in plans of before it was counted."""
    chance_by_deadline: float | None
    """`null`: no deadline was given."""
    quota: dict[str, Any]
    """What is known of the account's room for its machines, as the cloud last said it to `gpuplan doctor`."""
    spot: SpotRecord | None
    """For spot machines."""
    replicas: int | None
    """At work at once; machines that are spare are not counted."""
    latency_seconds: LatencyRecord | None
    """What people who wait see."""
    usd_per_million_tokens: Money | None
    """Of prompts and answers together; `null` for models that answer images or hear speech."""
    usd_per_million_answer_tokens: Money | None
    """Of answers alone."""
    usd_per_million_images: Money | None
    """For models that answer images."""
    usd_per_audio_hour: Money | None
    """An hour of sound, for models that hear speech."""
    serving: ServingDetail | None
    """How the replicas carry the load."""
    checkpoint: CheckpointRecord | None
    """`null` for a service, which saves nothing."""
    staging: StagingRecord | None
    """Bringing the data to each new machine, where a launch does that."""
    sweep: SweepRecord | None
    """For a sweep: how a machine carries its runs."""
    because: list[str]
    """Why it was chosen; of the recommended plan."""
    reasons: list[Remark] | None
    """`because` with figures."""
    advice: list[str]
    """How to run it well."""
    suggestions: list[Remark] | None
    """`advice` with figures."""
    _kinds = {"rate_usd_per_hour": "Money", "price": "PriceRecord", "layout": "LayoutRecord", "step_seconds": "Band", "step_parts": "StepPart", "tokens_per_second": "Band", "samples_per_second": "Band", "gpu_memory_bytes": "Band", "gpu_utilization": "Band", "input": "InputRecord", "run_hours": "Quantiles", "cost_usd": "Quantiles2", "full_cost_usd": "Money", "bill": "BillLineRecord", "energy": "EnergyRecord", "spot": "SpotRecord", "latency_seconds": "LatencyRecord", "usd_per_million_tokens": "Money", "usd_per_million_answer_tokens": "Money", "usd_per_million_images": "Money", "usd_per_audio_hour": "Money", "serving": "ServingDetail", "checkpoint": "CheckpointRecord", "staging": "StagingRecord", "sweep": "SweepRecord", "reasons": "Remark", "suggestions": "Remark"}


class PoolFigures(Record):
    """Machines of one `[[own]]` or `[[committed]]`."""
    name: str
    cloud: str
    instance_type: str
    nodes: int
    held_hours: float
    """Machine-hours in the months of the portfolio, and those that runs are expected to use."""
    used_hours: float
    paid_usd: Money
    """Cash for the machines, used or not."""
    depreciation_usd: Money
    """What they lose in value, used or not, which is not cash."""
    one_more_saves_usd: Money
    """That one machine more would save over these months, beside what it is paid for."""
    best_nodes: int
    """The number of machines among `sizes` that saves most beyond what it costs; as many as now where none is looked at."""
    sizes: list[PoolSize]
    """What other numbers of machines would save; none where the machines are not there in these months."""
    _kinds = {"paid_usd": "Money", "depreciation_usd": "Money", "one_more_saves_usd": "Money", "sizes": "PoolSize"}


class PoolRecord(Record):
    """A place where such machines are sold as spot."""
    cloud: str
    """Name of the cloud."""
    region: str
    """Name of the region."""
    zone_id: str | None
    """Id of the zone, where prices differ by zone."""
    instance_type: str
    """The cloud's name of the machine."""
    rate_usd_per_hour: Money
    """Of one machine."""
    observed_at: str
    """When the rate was seen."""
    assumed_availability: float
    """Share of time that this pool is assumed to have been up lately."""
    basis: str
    """Where that comes from."""
    basis_age_hours: float | None
    """How long ago its cloud said so."""
    own: Seen | None
    """What the user's own launches saw there."""
    availability: Availability
    """Whether a machine can be had now, as far as the cloud says."""
    signals: list[dict[str, Any]]
    """What the cloud says of its capacity."""
    signals_observed_at: str | None
    """When the oldest of the signals was said, as far as that is known."""
    _kinds = {"rate_usd_per_hour": "Money", "own": "Seen"}


class PoolSize(Record):
    """A pool of so many machines, beside the other pools as they are."""
    nodes: int
    paid_usd: Money
    """Cash for the machines, used or not."""
    saved_usd: Money
    """Of rent, against holding none of them."""
    net_usd: Money
    """What is saved beyond what is paid; negative: holding so many costs more than renting."""
    net_usd_with_less_work: Money
    """The same where every run needs only as much as in one of ten outcomes."""
    _kinds = {"paid_usd": "Money", "saved_usd": "Money", "net_usd": "Money", "net_usd_with_less_work": "Money"}


class PrefillRecord(Record):
    """Copies that read prompts and hand the cache over."""
    workers: int
    gpus_per_worker: int
    """GPUs of one of them."""
    load: float
    """Share of time that they read."""
    handover_seconds: float
    """From the end of a prompt until its cache is on the other GPUs."""


class PriceAge(Record):
    """How old the prices are that a sum rests on, by money."""
    older_than_days: float
    older_share: float
    """Share of the money on older prices."""
    undated_share: float
    """Share on prices without a date."""
    oldest: str | None
    """Of the oldest price; null: no price has a date."""


class PriceRecord(Record):
    """Where a rate comes from and how old it is."""
    origin: Origin
    """How the program came to it."""
    observed_at: str
    """When it was seen."""
    source: str
    """Id of its source."""
    stale: bool
    """It was too old when the plan was made."""
    suspect: list[Suspicion]
    """Why it may not be what it says."""


class ProcessingCounts(Record):
    """How much was looked at."""
    offers: int
    """Offers of machines without GPU."""
    candidates: int
    """Plans that keep every limit."""


class ProcessingRecord(Record):
    """So many machines that process data, with what they take."""
    id: str
    """Identity of the plan, stable between runs: place, machine, count, terms."""
    cloud: str
    """Name of the cloud, such as `aws`."""
    region: str
    """The cloud's name of the region."""
    zone_id: str | None
    """Id of the zone, where prices differ by zone."""
    instance_type: str
    """The cloud's name of the machine."""
    gpu: str | None
    """Id of the GPU that stands idle; `null` of machines without GPU."""
    gpus_per_node: int | None
    """0 of machines without GPU; `null` where GPUs stand idle."""
    vcpus_per_node: int
    """vCPUs of one machine."""
    nodes: int
    """Machines."""
    purchase: PurchaseTerms
    """The terms."""
    rate_usd_per_hour: Money
    """Of one machine."""
    price: PriceRecord
    """Where the rate comes from and how old it is."""
    bound_by: WorkBound
    """What takes longest."""
    work: WorkRecord
    """Its parts."""
    losses: LossesRecord | None
    """For machines that may be taken back."""
    layout: None
    """Always `null`."""
    gpu_utilization: None
    """Always `null`."""
    checkpoint: None
    """Always `null`."""
    wait_hours: Unknown | dict[str, Any]
    """Nobody publishes it."""
    run_hours: Quantiles
    """Hours from the request to the last result."""
    cost_usd: Quantiles2
    """Of the whole work."""
    bill: list[BillLineRecord]
    """Lines that add up to `cost_usd.expected` to the nano-dollar."""
    chance_by_deadline: float | None
    """`null`: no deadline was given."""
    because: list[str]
    """Why it was chosen; of the recommended plan."""
    reasons: list[Remark] | None
    """`because` with figures."""
    advice: list[str]
    """How to run it well."""
    suggestions: list[Remark] | None
    """`advice` with figures."""
    _kinds = {"rate_usd_per_hour": "Money", "price": "PriceRecord", "work": "WorkRecord", "losses": "LossesRecord", "run_hours": "Quantiles", "cost_usd": "Quantiles2", "bill": "BillLineRecord", "reasons": "Remark", "suggestions": "Remark"}


class ProcessingWorkload(Record):
    """What was asked and what was assumed; `file` alone is enough to ask again."""
    name: str
    """Name of the workload."""
    task: ProcessingTask
    """Always `processing`."""
    processing: AskedProcessing
    """What is done to the data."""
    assumed: list[str]
    """What nobody said and was assumed, as sentences."""
    assumptions: list[Remark] | None
    """The same with figures, in the same order."""
    file: dict[str, Any]
    """The workload file with all flags, without keys that nobody gave."""
    _kinds = {"processing": "AskedProcessing", "assumptions": "Remark"}


class PueRecord(Record):
    """A published PUE."""
    value: float
    """Average of a year."""
    of: str
    """What it is the average of: `region`, `continent` or `fleet` (all buildings of the cloud)."""
    year: int
    """The year."""
    source: str
    """Id of its source."""


class Quantiles(Record):
    """A figure under risk: mean, median and 90th percentile."""
    expected: float
    p50: float
    p90: float


class Quantiles2(Record):
    """A figure under risk: mean, median and 90th percentile."""
    expected: Money
    p50: Money
    p90: Money
    _kinds = {"expected": "Money", "p50": "Money", "p90": "Money"}


class Quantiles3(Record):
    """A figure under risk: mean, median and 90th percentile."""
    expected: float
    p50: float
    p90: float


class RejectionRecord(Record):
    """Candidates of one machine type and terms that are not in the answer, told by the one that came closest."""
    what: str
    """The machines, such as `aws/p5.48xlarge x2 on-demand`."""
    reason: RejectionReason
    """Why, as a word."""
    detail: str
    """Why, as a sentence with figures."""
    nearest_fix: str
    """What would let it in."""
    why: Remark | None
    """Why, with figures; its sentence is `detail`."""
    count: int
    """Candidates that this line is about."""
    _kinds = {"why": "Remark"}


class Remark(Record):
    """Something that is said, for programs and for people: `{"kind": "...", figures, "sentence": "..."}`."""
    kind: str
    """What is said, as a word. A newer program may write words that are not known here."""
    sentence: str
    """The same as a sentence in English; its wording may change at any time."""


class RuleResult(Record):
    """A rule about one team, one month or everything, with what was found."""
    rule: RuleKind
    team: str | None
    """Null: everything, or a month."""
    month: str | None
    budget_usd: Money | None
    """Null: the rule is about no budget, or none is stated."""
    max_age_days: float | None
    """Days, of a rule about the age of prices."""
    limit: float
    """Least probability, or most of the money or budget, as a share."""
    found: float | None
    """Null: unknown, which keeps no rule."""
    verdict: Verdict
    approval: Approval | None
    """Null: nobody allows that it is broken."""
    origin: RuleOrigin
    line: int
    _kinds = {"budget_usd": "Money", "approval": "Approval"}


class RunLine(Record):
    """One run."""
    run: str
    state: RunState
    machines: list[MachineLine]
    relaunches: int | None
    """Starts after the first; `null` where the engine does not count them."""
    cost_usd: Money | None
    """What its machines have cost so far; `null` where no price is known."""
    expected_cost_usd: Money | None
    progress: float | None
    """Share of the work whose result is saved, from 0 to 1."""
    started_at: str
    ended_at: str | None
    store: str
    """Where its checkpoints are kept."""
    engine: str | None
    job: str | None
    """The engine's own name of the job; `null` where its answer was lost."""
    phase: RunPhase | None
    staged: StagedLine | None
    sweep: SweepLine | None
    _kinds = {"machines": "MachineLine", "cost_usd": "Money", "expected_cost_usd": "Money", "staged": "StagedLine", "sweep": "SweepLine"}


class Sampling(Record):
    """How a diffusion model makes a picture."""
    steps: int
    """Of the sampler; the network runs once in each, or twice."""
    guidance: bool
    """Classifier-free guidance: every step runs the network with and without the prompt (Ho and Salimans, arXiv 2207.12598)."""
    side: int
    """Pixels of a side."""
    batch: int | None
    """Pictures that are made together at most; `None`: as many as fit."""


class Scaling(Record):
    """Efficiency of several GPUs over as many alone, and where it goes."""
    gpus: int
    efficiency: float
    """Part of a step that is not spent on what one GPU would not have: links, network, stages, slow machines."""
    rule_of_thumb: list[Any]
    """What people expect of so many GPUs, low and high."""
    largest_loss: list[Any] | None
    """Where most of what is lost goes, and its part of a step."""


class Seen(Record):
    """What attempts to rent, and what was rented, say of a pool."""
    starts: int
    """Times that it gave all machines."""
    refusals: int
    """Times that it had none."""
    losses: int
    """Times that it took them back."""
    hours_up: float
    """That it is known to have been up."""
    hours_down: float
    """That it is known to have been down."""
    hours_counted: float
    """Hours of both that still count: what is long ago is forgotten."""
    hours_counted_up: float
    """Of them, those up."""
    age_hours: float
    """Since the latest of it. Hours."""
    last: LastSeen | None
    """How it was then, as far as that is known."""
    _kinds = {"last": "LastSeen"}


class SensitivityBar(Record):
    """One bar: what is added to the total at either end of what is likely."""
    what: str
    low: str
    """What the low end is."""
    high: str
    low_usd: Money
    """Added at the low end; negative: saved."""
    high_usd: Money
    basis: str
    _kinds = {"low_usd": "Money", "high_usd": "Money"}


class ServingDetail(Record):
    """How the replicas carry the load."""
    requests_per_second: float
    """Requests that come, or that a job gets done."""
    most_requests_per_second: float
    """What all replicas could do with every place taken."""
    load: float
    """The first over the second."""
    batch_limit: int
    """Most requests that a replica works on at once."""
    batch: float
    """Mean number that it works on."""
    prompt_seconds: float
    """Reading one prompt."""
    pass_seconds: float
    """One pass over the batch, which writes a token of each answer."""
    gpu_cache_bytes_per_token: float
    """Keys and values of a token on one GPU."""
    gpus_per_replica: int
    """GPUs of one replica."""
    prefill: PrefillRecord | None
    """Copies that read prompts for the replicas, where other GPUs do that."""
    standby: StandbyRecord | None
    """Of a service on spot machines."""
    _kinds = {"prefill": "PrefillRecord", "standby": "StandbyRecord"}


class SpotRecord(Record):
    """What may become of a plan on spot machines, and what that rests on."""
    assumed_availability: float | None
    """Share of time that the pool is assumed to have been up lately."""
    basis: str
    """Where that comes from."""
    basis_age_hours: float | None
    """How long ago its cloud said so."""
    own: Seen | None
    """What the user's own launches saw of the pool."""
    forecast: Forecast | None
    """Time and money of the machines under the policy that the program ships."""
    on_demand_share: float | None
    """Mean share of machine-hours that on-demand machines run."""
    fallback_rate_usd_per_hour: Money | None
    """Of one on-demand machine that the plan falls back to; `null`: it does not fall back."""
    finish_by_hours: float | None
    """Hours from the start by which it ends, by falling back; `null`: it waits for spot as long as it takes."""
    break_even_availability: float | None
    """Share of time that the pool is up under which on-demand is cheaper; of the recommended plan."""
    pools: list[PoolRecord]
    """Places to try, the plan's own first and then by price."""
    promise: str | None
    """When the run ends, under which conditions and at which cost, as a sentence; `null` without a fallback."""
    cost_histogram: list[CostBar]
    """Bars of equal width over the cost of the machines in all draws of the forecast."""
    cost_quantiles_usd: list[Money] | None
    """Costs of the machines at equal steps of probability, cheapest first: the first of fifty is at 1 %, the next at 3 %, the last at 99
    %."""
    _kinds = {"own": "Seen", "forecast": "Forecast", "fallback_rate_usd_per_hour": "Money", "pools": "PoolRecord", "cost_histogram": "CostBar", "cost_quantiles_usd": "Money"}


class StagedLine(Record):
    """Data on its way to a machine."""
    bytes: int
    of_bytes: int
    bytes_per_second: float


class StagingRecord(Record):
    """Bringing the data to each new machine."""
    bytes: float
    """Of the data."""
    seconds: float
    """Until it is there."""
    bytes_per_second: float
    """Of one machine."""
    limit: str
    """What holds it up, in words."""


class StandbyPlace(Record):
    """Machines of a service in one place."""
    place: str
    """Zone, or region where prices do not differ by zone."""
    nodes: int
    """Machines there."""
    rate_usd_per_hour: Money
    """Of one machine."""
    _kinds = {"rate_usd_per_hour": "Money"}


class StandbyRecord(Record):
    """What keeps a service on spot machines up."""
    spare_nodes: int
    """Machines beyond those that carry the load."""
    places: list[StandbyPlace]
    """Where the machines stand."""
    too_few_replicas_share: float
    """Share of time that too few replicas run."""
    on_demand_share: float
    """Share of time that on-demand machines stand in."""
    _kinds = {"places": "StandbyPlace"}


class StepPart(Record):
    """A part of a step."""
    part: str
    """Such as `matrix products` or `data parallel traffic`."""
    seconds: float
    """Of the expected time."""


class SweepLine(Record):
    """Runs of a sweep, counted by their state."""
    runs: int
    completed: int
    running: int
    waiting: int
    failed: list[FailedLine]
    _kinds = {"failed": "FailedLine"}


class SweepRecord(Record):
    """How a machine carries the runs of a sweep. Figures of a step are those of one run; time and money are of all."""
    runs: int
    """Runs in all."""
    gpus_per_run: float
    """GPUs of one run; below 1 it shares a card."""
    side_by_side: int
    """Runs at the same time."""
    rounds: int
    """Times that the machine is filled."""
    run_hours: float
    """Undisturbed training of one run."""


class TermCommitment(Record):
    """Committing to the machines of some phases for years."""
    machines: str
    phases: list[str]
    purchase: str
    usd_per_year: Money
    break_even_hours_per_year: float
    """Hours a year at which it costs what the plans cost."""
    hours_per_year: float
    """At the pace of the portfolio."""
    saved_usd_per_year: Money
    """At that pace; negative: it loses."""
    _kinds = {"usd_per_year": "Money", "saved_usd_per_year": "Money"}


class TermsRecord(Record):
    """The recommended machines on one way to buy them."""
    purchase: str
    """The way, such as `on-demand` or `commitment 1y`."""
    why: Remark | None
    """Why there is none, with figures; its sentence is `refused`."""
    _kinds = {"why": "Remark"}


class TotalRecord(Record):
    """All phases together. Their percentiles are added, which is too wide where the phases do not err together."""
    run_hours: Quantiles
    """Hours of all phases."""
    cost_usd: Quantiles2
    """Of all phases."""
    deadline_hours: float | None
    """For all phases; `null`: none was given."""
    _kinds = {"run_hours": "Quantiles", "cost_usd": "Quantiles2"}


class Transcription(Record):
    """Sound that is written down. A request is a window of it."""
    seconds: float
    """Sound that a request is about, without what is heard a second time. Seconds."""
    beams: int
    """Transcripts of a window that are followed at once, of which the likeliest is kept (beam search); 1: greedy."""
    batch: int | None
    """Windows that are written down together at most; `None`: as many as fit."""


class UnitCosts(Record):
    """Expected cost of one time, before tax and before commitments, by what the workload states; null: it does not."""
    experiment_usd: Money | None
    """Of one run of a sweep."""
    epoch_usd: Money | None
    """Of a pass over the data set."""
    million_tokens_usd: Money | None
    """Trained on; of a served model those of answers, or of prompts where it gives none."""
    thousand_samples_usd: Money | None
    thousand_requests_usd: Money | None
    _kinds = {"experiment_usd": "Money", "epoch_usd": "Money", "million_tokens_usd": "Money", "thousand_samples_usd": "Money", "thousand_requests_usd": "Money"}


class ValueOfTimeRecord(Record):
    """What an hour until the result is worth."""
    usd_per_hour: Money
    """Dollars an hour; 0 for a service, whose hours are given."""
    is_stated: bool
    """By the user; else it follows from the amount of work."""
    _kinds = {"usd_per_hour": "Money"}


class WorkRecord(Record):
    """Parts of the work of one machine; the longest of them decides."""
    seconds: Band
    """All samples."""
    cores_per_node: float
    """Cores alone that a machine is worth."""
    computing_seconds: float
    """On the cores."""
    reading_seconds: float
    """Reading samples."""
    writing_seconds: float
    """Writing results."""
    _kinds = {"seconds": "Band"}


class WorkloadRecord(Record):
    """What was asked and what was assumed; `file` alone is enough to ask again."""
    name: str
    """Name of the workload."""
    model: str
    """Name of the model."""
    parameters: float | None
    """Parameters of the model."""
    task: Task
    """What is done with the model."""
    precision: Precision
    """Number format of the arithmetic."""
    sequence_length: int
    """Tokens of a sequence; of image models the side in pixels."""
    global_batch: int | None
    """Sequences of an optimizer step, where they were stated."""
    serving: AskedServing | None
    """What is asked of a model that answers requests; `null` for training."""
    assumed: list[str]
    """What nobody said and was assumed, as sentences."""
    assumptions: list[Remark] | None
    """The same with figures, in the same order."""
    file: dict[str, Any]
    """The workload file with all flags, without keys that nobody gave."""
    _kinds = {"serving": "AskedServing", "assumptions": "Remark"}


class Plan(Document):
    """The whole answer of `gpuplan plan` for work on GPUs."""
    version: int
    """See [`VERSION`]."""
    generated_at: str
    """When the plan was made."""
    valid_until: str | None
    """The last moment at which no price of the recommended plan is stale; `null` where nothing is recommended."""
    inputs: InputsRecord
    """What the answer rests on; `plan --locked` starts again from here."""
    workload: WorkloadRecord
    """What was asked, and what was assumed where nothing was said."""
    limits: dict[str, Any]
    """Limits as the workload file and the flags state them, without those that nobody gave."""
    recommendation: PlanRecord | None
    """`null` where no plan keeps every limit."""
    frontier: list[PlanRecord]
    """Nothing else is both cheaper and faster; cheapest first."""
    alternatives: list[PlanRecord]
    """The best of other machines that are not on the frontier, cheapest first."""
    choices: list[ChoiceRecord]
    """The cheapest, the recommended and the fastest plan that is sensible, each once."""
    value_of_time: ValueOfTimeRecord | None
    """What an hour until the result counts in the choice."""
    terms: list[TermsRecord]
    """The recommended machines on every way to buy them."""
    rejected: list[RejectionRecord]
    """What is not in the answer, and why."""
    nearest: list[RejectionRecord]
    """The rejections that came closest, where nothing is left."""
    counts: Counts
    """How much was looked at."""
    findings: list[FindingRecord]
    """What a profile of the run found, with what mending it would save of the recommended plan."""
    evidence: list[Evidence] | None
    """What the recommended plan rests on beside the hardware, and how old each kind of it is."""
    notes: list[str]
    """What else is worth knowing, as sentences."""
    warnings: list[Remark] | None
    """The notes with their figures, in the same order."""
    phases: list[PhaseRecord] | None
    """In the order in which they run."""
    total: TotalRecord | None
    """All phases together."""
    _rows = "choices"
    _has_page = True
    _kinds = {"inputs": "InputsRecord", "workload": "WorkloadRecord", "recommendation": "PlanRecord", "frontier": "PlanRecord", "alternatives": "PlanRecord", "choices": "ChoiceRecord", "value_of_time": "ValueOfTimeRecord", "terms": "TermsRecord", "rejected": "RejectionRecord", "nearest": "RejectionRecord", "counts": "Counts", "findings": "FindingRecord", "evidence": "Evidence", "warnings": "Remark", "phases": "PhaseRecord", "total": "TotalRecord"}


class ProcessingPlan(Document):
    """The whole answer of `gpuplan plan` for data processing: the fields of a plan document that have a meaning for it."""
    version: int
    """As of every plan document."""
    generated_at: str
    """When the plan was made."""
    valid_until: str | None
    """The last moment at which the price of the recommended plan is not stale; `null` where nothing is recommended."""
    inputs: InputsRecord
    """What the answer rests on."""
    workload: ProcessingWorkload
    """What was asked, and what was assumed where nothing was said."""
    limits: dict[str, Any]
    """Limits as the workload file and the flags state them, without those that nobody gave."""
    recommendation: ProcessingRecord | None
    """`null` where no plan keeps every limit."""
    frontier: list[ProcessingRecord]
    """Nothing else is both cheaper and faster; cheapest first."""
    alternatives: list[ProcessingRecord]
    """The best of other machines that are not on the frontier, cheapest first."""
    on_gpu_machines: ProcessingRecord | None
    """The same work on the CPUs of machines with GPUs, which stand idle."""
    rejected: list[RejectionRecord]
    """What is not in the answer, and why."""
    counts: ProcessingCounts
    """How much was looked at."""
    notes: list[str]
    """What else is worth knowing, as sentences."""
    warnings: list[Remark] | None
    """The notes with their figures, in the same order."""
    phases: list[PhaseRecord] | None
    """In the order in which they run."""
    total: TotalRecord | None
    """All phases together."""
    _rows = "choices"
    _kinds = {"inputs": "InputsRecord", "workload": "ProcessingWorkload", "recommendation": "ProcessingRecord", "frontier": "ProcessingRecord", "alternatives": "ProcessingRecord", "on_gpu_machines": "ProcessingRecord", "rejected": "RejectionRecord", "counts": "ProcessingCounts", "warnings": "Remark", "phases": "PhaseRecord", "total": "TotalRecord"}


class Explanation(Document):
    """`gpuplan explain -o json`."""
    version: int
    plan: PlanRecord
    """The plan that is explained."""
    recommended: bool
    """Whether it is the plan that the file's own preferences lead to."""
    why_not: list[str]
    """Why it was not recommended, one sentence a reason."""
    what_would_change: list[str]
    """What would make it the recommended one, as sentences."""
    scaling: Scaling | None
    """What several GPUs do together over as many alone; `null` for one GPU."""
    why_not_reasons: list[dict[str, Any]]
    """`why_not` with its figures."""
    changes: list[dict[str, Any]]
    """`what_would_change` with its figures."""
    nearest: NearestReport | None
    """The published runs that are most like the plan's steps; `null` for a model that is served."""
    _kinds = {"plan": "PlanRecord", "scaling": "Scaling", "nearest": "NearestReport"}


class Estimate(Document):
    """`gpuplan estimate -o json`."""
    version: int
    model: str
    gpu: str
    """Id of the GPU in the catalog."""
    gpus: int
    layout: Layout
    micro_batch: int
    """Samples that a GPU takes at a time."""
    global_batch: float
    """Samples of a step."""
    recompute: Recompute
    step_seconds: Band
    units_per_second: Band
    """Tokens a second of the whole job; samples or images for models that count those."""
    model_tflops_per_gpu: Band
    """Operations of the model itself, without what is computed again."""
    model_flop_utilization: float
    """Share of the GPUs' peak that those operations reach (MFU)."""
    peak_memory_bytes: Band
    """What the fullest GPU needs."""
    gpu_memory_bytes: float
    """What a GPU has."""
    fits: bool
    bound_by: Bound
    regime: Regime
    time_seconds: dict[str, float]
    """Parts of the step, the largest first."""
    memory_bytes: dict[str, float]
    """Parts of a GPU's memory, the largest first. They are not all live at the fullest moment."""
    assumed: list[str]
    """What was left open and chosen, as sentences."""
    assumptions: list[Remark]
    """The same with figures, in the same order."""
    nearest: NearestReport
    _kinds = {"layout": "Layout", "step_seconds": "Band", "units_per_second": "Band", "model_tflops_per_gpu": "Band", "peak_memory_bytes": "Band", "assumptions": "Remark", "nearest": "NearestReport"}


class Prices(Document):
    """`gpuplan prices -o json`."""
    version: int
    offers: list[OfferLine]
    _rows = "offers"
    _kinds = {"offers": "OfferLine"}


class Budget(Document):
    """What a portfolio costs, as `budget --output json` writes it. The lines add up to `total.cost_usd.expected` to the nano-dollar."""
    version: int
    generated_at: str
    name: str
    currency: str
    """Of every amount: `USD`; those whose name says `in_currency` are of `exchange`."""
    exchange: Exchange | None
    """The currency in which the portfolio is stated, and in which people are shown the budget; absent: dollars."""
    tax: str
    """`excluded`, or the share that is in every amount but the figures of phases, which are before tax."""
    start: str
    months: int
    inputs: InputsRecord
    total: BudgetTotal
    by_month: list[CostGroup]
    by_team: list[CostGroup]
    by_cloud: list[CostGroup]
    by_gpu: list[CostGroup]
    cumulative: list[CumulativeCost]
    """All months until the end of each, one after another; the last is the total."""
    phases: list[PhaseFigures]
    commitments: list[CommitmentFigures]
    held: HeldMachines | None
    """Own and committed machines, and what the runs use of them; absent where there are none."""
    footprint: Footprint | None
    """Electricity and what it emits, where that was asked for."""
    promises: list[TermCommitment]
    """The machines of some phases committed to for years."""
    elsewhere: list[OtherCloudCost]
    """Each phase on other clouds."""
    rules: list[RuleResult] | None
    """What the budget has to keep, and whether it does."""
    sensitivity: list[SensitivityBar]
    """Longest first."""
    lines: list[BudgetLine]
    assumptions: list[str]
    _rows = "lines"
    _has_page = True
    _kinds = {"exchange": "Exchange", "inputs": "InputsRecord", "total": "BudgetTotal", "by_month": "CostGroup", "by_team": "CostGroup", "by_cloud": "CostGroup", "by_gpu": "CostGroup", "cumulative": "CumulativeCost", "phases": "PhaseFigures", "commitments": "CommitmentFigures", "held": "HeldMachines", "footprint": "Footprint", "promises": "TermCommitment", "elsewhere": "OtherCloudCost", "rules": "RuleResult", "sensitivity": "SensitivityBar", "lines": "BudgetLine"}


class Status(Document):
    """Runs that were launched from this machine, as `gpuplan status -o json` prints them."""
    version: int
    runs: list[RunLine]
    _rows = "runs"
    _kinds = {"runs": "RunLine"}
