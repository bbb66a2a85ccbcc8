"""Reads what `gpuplan profile run` exported with the readers of TensorBoard, Prometheus and MLflow."""

import os
import sys

from mlflow.tracking import MlflowClient
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder = sys.argv[1]

with open(os.path.join(folder, "s.prom")) as text:
    families = {family.name: family for family in text_string_to_metric_families(text.read())}
busy = {sample.labels["gpu"]: sample.value for sample in families["gpuplan_gpu_busy_ratio"].samples}
assert busy == {"0": 0.61, "1": 0.59}, busy

events = EventAccumulator(os.path.join(folder, "events"))
events.Reload()
scalars = events.Scalars("gpuplan/gpu_busy_ratio/gpu1")
assert len(scalars) >= 3 and all(abs(each.value - 0.59) < 1e-6 for each in scalars), scalars

# Started in the folder, MLflow opens the database there unasked, and brings it up to date.
os.chdir(os.path.join(folder, "mlruns"))
client = MlflowClient()
(run,) = client.search_runs(["0"])
assert run.info.status == "FAILED", run.info
assert run.data.metrics["gpuplan_gpu_busy_ratio.gpu0"] == 0.61, run.data.metrics
history = client.get_metric_history(run.info.run_id, "gpuplan_gpu_busy_ratio.gpu0")
assert [point.step for point in history] == list(range(1, len(history) + 1)), history
