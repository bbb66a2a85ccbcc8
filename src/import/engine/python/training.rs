//! Python programs that train, by the arguments that are written out to Trainer, TRL, PEFT, Unsloth and Lightning; what is computed is unread.

use super::calls::{Call, calls_with};
use super::conditions;
use crate::recipe::{self, Dialect, Entry};
use crate::{JobRequest, Names};
use gpuplan_workload::assumption::JobAssumption;

/// Packages by whose import such a program is known.
const PACKAGES: [&str; 6] = ["transformers", "trl", "peft", "unsloth", "lightning", "pytorch_lightning"];
/// TRL's configurations and trainers, by the word of each: `SFTConfig`, `DPOTrainer`.
const METHODS: [(&str, &str); 10] = [
    ("SFT", "sft"),
    ("DPO", "dpo"),
    ("KTO", "kto"),
    ("ORPO", "orpo"),
    ("CPO", "cpo"),
    ("Reward", "reward"),
    ("GRPO", "grpo"),
    ("PPO", "ppo"),
    ("RLOO", "rloo"),
    ("GKD", "gkd"),
];
/// Parts of the names of classes that load what is no model that is trained.
const NO_MODELS: [&str; 7] = ["Tokenizer", "Processor", "Config", "FeatureExtractor", "Peft", "Reward", "Value"];
/// PEFT's adapters that the estimate does not know.
const OTHER_ADAPTERS: [&str; 8] = [
    "PrefixTuningConfig",
    "PromptTuningConfig",
    "PromptEncoderConfig",
    "IA3Config",
    "AdaLoraConfig",
    "LoHaConfig",
    "LoKrConfig",
    "OFTConfig",
];
/// Arguments of Lightning's Trainer that are read.
const OF_LIGHTNING: [&str; 8] =
    ["devices", "gpus", "num_nodes", "precision", "max_epochs", "max_steps", "accumulate_grad_batches", "strategy"];
/// What stands for a value that is computed: unknown, as all that has a `$`.
const COMPUTED: &str = "$computed";
/// Keys of a trainer of which it matters that they are computed.
const MATTERS: [&str; 9] = [
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "bf16",
    "fp16",
    "optim",
    "max_seq_length",
    "max_length",
];

/// What a program says.
struct Program<'a> {
    text: &'a str,
    calls: Vec<Call>,
    packages: Vec<&'a str>,
}

/// Whether a text is a program that imports one of the packages.
pub fn is_program(text: &str) -> bool {
    let is_other = text.starts_with("#!") && !text.lines().next().is_some_and(|line| line.contains("python"));
    // Adapters are attached to be trained, be it in a loop of the program's own.
    let trains = |line: &str| ["Trainer(", "Fabric(", "get_peft_model("].iter().any(|call| line.contains(call));
    !is_other && !packages(text).is_empty() && text.lines().any(trains)
}

fn packages(text: &str) -> Vec<&str> {
    let imports = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "))?;
        rest.split([' ', '.', ',']).next()
    });
    imports.filter(|module| PACKAGES.contains(module)).collect()
}

/// Reads a training program into the job; `flags` are those that whoever starts it gives it.
pub fn read(text: &str, flags: &[(String, String)], asked: &mut JobRequest, names: Names) {
    let program = Program { text, calls: calls_with(text, flags), packages: packages(text) };
    asked.trains = true;
    let mut entries = program.model(asked);
    let adapters = program.adapters(flags, asked);
    entries.extend(adapters.iter().flatten().cloned());
    entries.extend(program.trainer(asked));
    entries.extend(program.length(&entries));
    entries.extend(program.data());
    let dialect = program.dialect();
    program.method(asked);
    recipe::apply(dialect, &entries, asked, names);
    match &adapters {
        Some(adapters) => {
            // Unsloth's own command line trains adapters alone; a program attaches them.
            if adapters.is_empty()
                && program.imports("unsloth")
                && asked.workload.training.task.as_deref() == Some("lora")
            {
                asked.workload.training.task = None;
            }
            program.task(!adapters.is_empty(), asked);
        }
        // Which weights are trained the condition decides.
        None => {
            asked.workload.training.task = None;
            asked.workload.training.base_weights = None;
        }
    }
    // A loop of its own has none of a trainer's defaults.
    if text.contains("Trainer(") {
        // Arguments that the program parses are those of its command line or of a file.
        let has_defaults = !["HfArgumentParser", "TrlParser"].iter().any(|parser| text.contains(parser));
        recipe::amount_of_data(dialect, &entries, has_defaults, asked);
        recipe::leave_to_the_parser(dialect, &entries, asked);
    }
}

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: Some(value.to_owned()), shown: key.to_owned() }
}

/// `SFTConfig` of `trl.SFTConfig`.
fn last(call: &Call) -> &str {
    call.name.rsplit('.').next().unwrap_or_default()
}

fn argument<'a>(call: &'a Call, keys: &[&str]) -> Option<&'a str> {
    call.arguments.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.as_str())
}

/// Whether a call configures a trainer of transformers or of TRL.
fn configures(call: &Call) -> bool {
    let name = last(call);
    let of_trl = |(class, _): &(&str, &str)| name.strip_suffix("Config") == Some(class);
    // `GRPOConfig(**settings)` of `settings = dict(per_device_train_batch_size=2)`.
    let is_handed =
        (name == "dict" || call.is_dictionary) && argument(call, &["per_device_train_batch_size"]).is_some();
    name.ends_with("TrainingArguments") || METHODS.iter().any(of_trl) || is_handed
}

impl Program<'_> {
    fn imports(&self, package: &str) -> bool {
        self.packages.contains(&package)
    }

    fn is_lightning(&self) -> bool {
        self.imports("lightning") || self.imports("pytorch_lightning")
    }

    fn dialect(&self) -> &'static Dialect {
        let program = if self.imports("unsloth") {
            "unsloth.py"
        } else if self.imports("trl") {
            "trl/train.py"
        } else if self.is_lightning() {
            return recipe::of_command("", &[entry("trainer.devices", "")]);
        } else {
            return recipe::of_command("train.py", &[entry("per_device_train_batch_size", "")]);
        };
        recipe::of_command(program, &[])
    }

    /// The model whose weights are loaded, in how many bits, and the length that Unsloth is told with it. Two models are told apart by nobody.
    fn model(&self, asked: &mut JobRequest) -> Vec<Entry> {
        const NAMES: [&str; 3] = ["pretrained_model_name_or_path", "model_name", "model_name_or_path"];
        let is_model = |call: &&Call| {
            let class = call.name.rsplit('.').nth(1).unwrap_or_default();
            last(call) == "from_pretrained"
                && (class.contains("Model") || class.contains("For"))
                && !NO_MODELS.iter().any(|other| class.contains(other))
        };
        let loads: Vec<&Call> = self.calls.iter().filter(is_model).collect();
        let named = |call: &&Call| argument(call, &NAMES).or(call.positional.as_deref()).map(str::to_owned);
        let of_trainer = self
            .calls
            .iter()
            .filter(|call| last(call).ends_with("Trainer"))
            .filter_map(|call| argument(call, &["model"]));
        let all = loads.iter().filter_map(named).chain(of_trainer.map(str::to_owned));
        let mut all: Vec<String> = all.map(|name| name.trim_end_matches('/').to_owned()).collect();
        all.sort();
        all.dedup();
        let mut entries = match all.as_slice() {
            [one] => vec![entry("model_name_or_path", one)],
            [] if loads.is_empty() => Vec::new(),
            [] => {
                asked.leave_unread("from_pretrained", "a model whose name is computed");
                Vec::new()
            }
            several => {
                asked.leave_unread("from_pretrained", format!("several models: {}", several.join(", ")));
                Vec::new()
            }
        };
        let quantizes = |call: &&Call| last(call) == "BitsAndBytesConfig" || last(call) == "from_pretrained";
        for key in ["load_in_4bit", "load_in_8bit", "full_finetuning"] {
            let value = self.calls.iter().filter(quantizes).find_map(|call| argument(call, &[key]));
            entries.extend(value.map(|value| entry(key, value)));
        }
        for key in ["max_seq_length", "attn_implementation"] {
            entries.extend(loads.iter().find_map(|call| argument(call, &[key])).map(|value| entry(key, value)));
        }
        entries
    }

    /// Adapters of PEFT and of Unsloth. Empty: there are none. `None`: they are attached under a condition that only a run would decide.
    fn adapters(&self, flags: &[(String, String)], asked: &mut JobRequest) -> Option<Vec<Entry>> {
        if let Some(other) = self.calls.iter().map(last).find(|name| OTHER_ADAPTERS.contains(name)) {
            asked.not_planned.get_or_insert_with(|| format!("the estimate knows no adapters of the kind `{other}`"));
        }
        let adds = |call: &&Call| {
            last(call) == "LoraConfig" || (last(call) == "get_peft_model" && argument(call, &["r"]).is_some())
        };
        let Some(call) = self.calls.iter().find(adds) else { return Some(Vec::new()) };
        match conditions::of_adapters(self.text, flags) {
            Ok(true) => {}
            Ok(false) => return Some(Vec::new()),
            Err(condition) => {
                asked.leave_unread("adapters", format!("attached under a condition: `{condition}`"));
                return None;
            }
        }
        let mut entries = vec![entry("use_peft", "True")];
        for (key, known) in [("r", "lora_r"), ("lora_dropout", "lora_dropout")] {
            match argument(call, &[key]) {
                Some(value) => entries.push(entry(known, value)),
                None if call.computed.iter().any(|computed| computed == key) => asked.leave_unread(known, "computed"),
                None => {}
            }
        }
        let targets = call.lists.iter().find(|(key, _)| key == "target_modules").map(|(_, texts)| texts.as_str());
        entries
            .extend(targets.or(argument(call, &["target_modules"])).map(|texts| entry("lora_target_modules", texts)));
        Some(entries)
    }

    /// What its trainers are told. What two of them are told differently only a run would tell.
    fn trainer(&self, asked: &mut JobRequest) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut different: Vec<String> = Vec::new();
        let of_trl = |call: &&Call| last(call).ends_with("Trainer") && !self.is_lightning();
        let told =
            self.calls.iter().filter(|call| configures(call) || of_trl(call) || self.is_trainer_of_lightning(call));
        for call in told {
            let is_part = |key: &str| match (configures(call), self.is_trainer_of_lightning(call)) {
                (true, _) => true,
                (_, true) => OF_LIGHTNING.contains(&key),
                // TRL's first versions told the trainer itself.
                _ => matches!(key, "max_seq_length" | "packing"),
            };
            for (key, value) in call.arguments.iter().filter(|(key, _)| is_part(key)) {
                match entries.iter().find(|one| one.shown == *key) {
                    Some(one) if one.value.as_deref() != Some(value) => different.push(key.clone()),
                    Some(_) => {}
                    None => entries.push(Entry { key: self.known_key(key, call), ..entry(key, value) }),
                }
            }
            for key in call
                .computed
                .iter()
                .filter(|key| is_part(key) && (MATTERS.contains(&key.as_str()) || self.is_lightning()))
            {
                if !entries.iter().any(|one| one.shown == *key) {
                    entries.push(Entry { key: self.known_key(key, call), ..entry(key, COMPUTED) });
                }
            }
        }
        for key in &different {
            asked.leave_unread(key, "two trainers are told differently");
        }
        entries.retain(|one| !different.contains(&one.shown));
        entries
    }

    /// The length to which its tokenizer cuts texts, where no trainer is told one and all are cut to the same.
    fn length(&self, entries: &[Entry]) -> Option<Entry> {
        let is_told = entries.iter().any(|entry| matches!(entry.key.as_str(), "max_seq_length" | "max_length"));
        let cuts = |call: &&Call| {
            argument(call, &["truncation"]).is_some_and(|value| value == "True" || value == "longest_first")
        };
        let mut all = self.calls.iter().filter(cuts).map(|call| argument(call, &["max_length"]));
        let first = all.next().flatten().filter(|_| !is_told)?;
        all.all(|other| other == Some(first)).then(|| entry("max_length", first))
    }

    /// The key that the tables have for an argument: those of Lightning's trainer have a section.
    fn known_key(&self, key: &str, call: &Call) -> String {
        if self.is_trainer_of_lightning(call) { format!("trainer.{key}") } else { key.to_owned() }
    }

    fn is_trainer_of_lightning(&self, call: &Call) -> bool {
        self.is_lightning() && matches!(last(call), "Trainer" | "Fabric")
    }

    /// The data set, where one is loaded by its name and whole.
    fn data(&self) -> Vec<Entry> {
        let sets: Vec<&Call> = self.calls.iter().filter(|call| last(call) == "load_dataset").collect();
        let [one] = sets.as_slice() else { return Vec::new() };
        let split = argument(one, &["split"]).unwrap_or_default();
        let name = argument(one, &["path"]).or(one.positional.as_deref());
        let is_file = |name: &&str| ["json", "csv", "parquet", "text"].contains(name);
        match name.filter(|name| !is_file(name)) {
            Some(name) => vec![entry("dataset_name", name), entry("dataset_split", split)],
            None => Vec::new(),
        }
    }

    /// What is learnt, by TRL's classes.
    fn method(&self, asked: &mut JobRequest) {
        let word_of = |call: &Call| {
            let name = last(call);
            let class = name.strip_suffix("Trainer").or_else(|| name.strip_suffix("Config"))?;
            METHODS.iter().find(|(known, _)| *known == class).map(|(_, word)| *word)
        };
        if let Some(word) = self.calls.iter().filter_map(word_of).find(|word| *word != "sft") {
            recipe::objective(word, recipe::OBJECTIVES, asked);
            asked.understand("trainer", word);
        }
    }

    /// Without adapters the trainers of transformers train every weight of a model that is loaded, unless the program freezes some or computes
    /// a loss of its own.
    fn task(&self, has_adapters: bool, asked: &mut JobRequest) {
        let is_trainer = |call: &Call| {
            matches!(last(call), "Trainer" | "Seq2SeqTrainer")
                || last(call).ends_with("Trainer") && configures_by_name(last(call))
        };
        let loads = asked.model_name.is_some()
            && self.calls.iter().any(|call| last(call) == "from_pretrained" || argument(call, &["model"]).is_some());
        let lower = conditions::without_texts(self.text).to_ascii_lowercase();
        let is_own = ["requires_grad", "compute_loss", "trainer):", "freeze", "peft", "lora", "adapter"]
            .iter()
            .any(|word| lower.contains(word));
        let is_plain = self.calls.iter().any(is_trainer) && loads && !is_own && !self.is_lightning();
        if asked.workload.training.task.is_none() && !has_adapters && asked.not_planned.is_none() && is_plain {
            asked.workload.training.task = Some("full-fine-tune".to_owned());
            asked.assumed.push(JobAssumption::NoAdapters);
        }
    }
}

/// `SFTTrainer`, `DPOTrainer`.
fn configures_by_name(name: &str) -> bool {
    METHODS.iter().any(|(class, _)| name.strip_suffix("Trainer") == Some(class))
}

#[cfg(test)]
mod tests {
    use crate::{ImportError, JobRequest, Names};
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;
    use gpuplan_workload::assumption::JobAssumption;

    fn read_with(text: &str, program: Option<&str>) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let files = |name: &str| program.filter(|_| name == "mine.py").map(str::to_owned);
        crate::read(text, Names { files: &files, ..Names::new(&hardware, &models) })
    }

    /// Model, task, batch, accumulation, length, format and amount, in one line.
    fn said(read: &JobRequest) -> String {
        let training = &read.workload.training;
        let numbers = [
            &training.micro_batch,
            &training.grad_accumulation,
            &training.sequence_length,
            &training.steps,
            &training.epochs,
        ];
        let numbers = numbers.map(|number| number.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string));
        let words = [&read.model_name, &training.task, &training.precision, &training.objective];
        let words = words.map(|word| word.clone().unwrap_or_else(|| "-".to_owned()));
        format!("{} {}", words.join(" "), numbers.join(" "))
    }

    const QLORA: &str = "import argparse\nfrom transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig\n\
        from peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\n\nLENGTH = 1_024\n\ndef main(args):\n    \
        tokenizer = AutoTokenizer.from_pretrained(\"gpt2\")\n    \
        bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\")\n    \
        model = AutoModelForCausalLM.from_pretrained(\n        args.base,\n        quantization_config=bits,\n    )\n    \
        adapters = LoraConfig(r=args.rank, target_modules=[\n        \"q_proj\", \"v_proj\",\n        \"o_proj\",\n    ])\n    \
        told = SFTConfig(\n        max_length=LENGTH,\n        per_device_train_batch_size=args.batch,  # each\n        \
        gradient_accumulation_steps=64 // args.batch,\n        num_train_epochs=2,\n        bf16=True,\n    )\n    \
        SFTTrainer(model=model, args=told, peft_config=adapters).train()\n\nparser = argparse.ArgumentParser()\n\
        parser.add_argument(\"--base\", default=\"Qwen/Qwen2.5-7B\")\nparser.add_argument(\"--batch\", type=int, default=4)\n\
        parser.add_argument(\"--rank\", type=int, default=8)\nmain(parser.parse_args())\n";

    #[test]
    fn written_arguments_are_the_work_and_computed_ones_are_unread() {
        let read = read_with(QLORA, None).unwrap();
        assert_eq!(said(&read), "Qwen/Qwen2.5-7B qlora bf16 - 4 - 1024 - 2");
        let lora = &read.workload.training.lora;
        assert_eq!(lora.rank.as_ref().map(ToString::to_string).as_deref(), Some("8"));
        assert_eq!(lora.targets, Some(["q_proj", "v_proj", "o_proj"].map(str::to_owned).to_vec()));
        let unread: Vec<&str> = read.unread.iter().map(|one| one.key.as_str()).collect();
        assert!(unread.contains(&"gradient_accumulation_steps") && read.choices.is_empty(), "{unread:?}");
    }

    /// A job that starts the program gives it flags, which win over its defaults and not over what it writes out.
    #[test]
    fn a_program_beside_its_job_is_read_with_its_flags() {
        let job = "#SBATCH --gres=gpu:h100:2\ntorchrun --nproc_per_node 2 mine.py --batch 16 --base meta-llama/Llama-3.1-8B\n";
        let read = read_with(job, Some(QLORA)).unwrap();
        assert_eq!(said(&read), "meta-llama/Llama-3.1-8B qlora bf16 - 16 - 1024 - 2");
        assert_eq!((read.gpus(), read.program.as_deref()), (Some(2), Some("mine.py")));
        let without = read_with(job, None).unwrap();
        assert_eq!(without.workload.training.task, None);
    }

    #[test]
    fn trainers_say_what_is_learnt() {
        let head = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n";
        let load = "model = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n";
        let told = "args = TrainingArguments(per_device_train_batch_size=2, max_steps=7)\n";
        let plain = format!("{head}{load}{told}Trainer(model=model, args=args).train()\n");
        let read = read_with(&plain, None).unwrap();
        assert_eq!(said(&read), "gpt2 full-fine-tune - - 2 - - 7 -");
        assert!(read.assumed.contains(&JobAssumption::NoAdapters));
        let computed = plain.replace("max_steps=7", "num_train_epochs=epochs(9)");
        assert_eq!(said(&read_with(&computed, None).unwrap()), "gpt2 full-fine-tune - - 2 - - - -");
        // A loss of its own, frozen weights, or a second model: what is trained nobody says.
        for (other, model) in [
            ("class Mine(Trainer):\n    def compute_loss(self): ...\n", Some("gpt2")),
            ("for weight in model.parameters():\n    weight.requires_grad = False\n", Some("gpt2")),
            ("teacher = AutoModelForCausalLM.from_pretrained(\"gpt2-large\")\n", None),
        ] {
            let read = read_with(&format!("{plain}{other}"), None).unwrap();
            assert_eq!((read.workload.training.task, read.model_name.as_deref()), (None, model), "{other}");
        }
        let twice =
            read_with(&format!("{plain}late = TrainingArguments(per_device_train_batch_size=9, max_steps=7)\n"), None);
        assert_eq!(said(&twice.unwrap()), "gpt2 full-fine-tune - - - - - 7 -");
        let trl = |text: &str| read_with(&format!("from trl import *\n{text}"), None).unwrap();
        let preferences = trl("DPOTrainer(model=\"gpt2\", args=DPOConfig(beta=0.1, max_length=64))\n");
        assert_eq!(said(&preferences), "gpt2 full-fine-tune - dpo - - 64 - 3");
        let rollouts =
            trl("told = dict(per_device_train_batch_size=3)\nGRPOTrainer(model=\"gpt2\", args=GRPOConfig(**told))\n");
        assert!(rollouts.not_planned.is_some() && said(&rollouts).contains(" 3 "), "{}", said(&rollouts));
        let prefix = format!("{plain}config = PrefixTuningConfig(num_virtual_tokens=9)\n");
        assert!(read_with(&prefix, None).unwrap().not_planned.is_some());
    }

    /// Lightning counts cards itself, Unsloth is told a length with the model, a tokenizer cuts, and Fire makes flags of a function's arguments.
    #[test]
    fn other_libraries_say_it_their_own_way() {
        let lightning = "import lightning as L\nL.Trainer(devices=4, num_nodes=2, precision=\"bf16-mixed\", max_epochs=3, logger=None)\n";
        let read = read_with(lightning, None).unwrap();
        assert_eq!((read.gpus(), said(&read).as_str()), (Some(8), "- - bf16 - - - - - 3"));
        let unsloth = "from unsloth import FastLanguageModel\nfrom trl import SFTTrainer\n\
            model, _ = FastLanguageModel.from_pretrained(model_name = \"unsloth/Qwen3-8B\", max_seq_length = 512, load_in_4bit = False)\n\
            model = FastLanguageModel.get_peft_model(model, r = 16)\nSFTTrainer(model = model)\n";
        let read = read_with(unsloth, None).unwrap();
        assert_eq!(said(&read), "unsloth/Qwen3-8B lora - - - - 512 - -");
        assert_eq!(read.workload.training.framework.as_deref(), Some("unsloth"));
        let fire = "import fire\nfrom transformers import AutoModelForMaskedLM, Trainer\n\
            def train(\n    name: str = \"roberta-base\",\n):\n    model = AutoModelForMaskedLM.from_pretrained(name)\n    \
            tokenizer(texts, truncation=True, max_length=128)\n    Trainer(model=model).train()\n";
        assert!(said(&read_with(fire, None).unwrap()).starts_with("- "), "whoever calls it names the model");
        let flags = read_with(&format!("{fire}fire.Fire(train)\n"), None).unwrap();
        assert_eq!(said(&flags), "roberta-base full-fine-tune - - - - 128 - 3");
    }

    #[test]
    fn adapters_in_a_loop_of_its_own_have_no_defaults_of_a_trainer() {
        let own = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom peft import LoraConfig, get_peft_model\n\
            bits = BitsAndBytesConfig(load_in_4bit=True)\nmodel = AutoModelForCausalLM.from_pretrained(\"gpt2\", quantization_config=bits)\n\
            model = get_peft_model(model, LoraConfig(r=4))\nfor step in range(9):\n    model(batch).loss.backward()\n";
        assert_eq!(said(&read_with(own, None).unwrap()), "gpt2 qlora - - - - - - -");
    }

    /// Adapters that a flag switches on are asked about, unless whoever starts the program has said it.
    #[test]
    fn adapters_under_a_condition_are_asked_about() {
        let program = "from unsloth import FastLanguageModel\nfrom trl import SFTTrainer, SFTConfig\nparser.add_argument(\"--do_lora\", action=\"store_true\")\n\
            model, tokenizer = FastLanguageModel.from_pretrained(\"Qwen/Qwen2.5-7B\", load_in_4bit=False)\nif args.do_lora:\n    \
            model = FastLanguageModel.get_peft_model(model, r=16)\nSFTTrainer(model=model, args=SFTConfig(max_steps=7)).train()\n";
        let read = read_with(program, None).unwrap();
        assert_eq!(said(&read), "Qwen/Qwen2.5-7B - - - - - - 7 -");
        assert!(crate::command::unsaid(&read, &read.workload).is_some());
        let chosen = "from transformers import AutoModelForCausalLM, Trainer\nNAME = \"gpt2\"\nif big:\n    NAME = \"gpt2-large\"\n\
            model = AutoModelForCausalLM.from_pretrained(NAME)\nTrainer(model=model)\n";
        assert_eq!(read_with(chosen, None).unwrap().model_name, None, "which name it is a condition decides");
        let job = "#SBATCH --gres=gpu:1\npython mine.py --do_lora True\n";
        assert_eq!(said(&read_with(job, Some(program)).unwrap()), "Qwen/Qwen2.5-7B lora - - - - - 7 -");
        // What a text speaks of is not done.
        let plain = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\nmodel = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n\
            print(\"or use LoRA\")\nTrainer(model=model, args=TrainingArguments(max_steps=7)).train()\n";
        assert_eq!(said(&read_with(plain, None).unwrap()), "gpt2 full-fine-tune - - - - - 7 -");
    }

    #[test]
    fn what_trains_by_no_known_trainer_is_no_such_program() {
        for text in ["import torch\nTrainer(model).fit()\n", "from transformers import pipeline\npipeline(\"x\")\n"] {
            assert!(read_with(text, None).is_err(), "{text}");
        }
        let shell =
            "#!/bin/bash\npython - <<EOF\nimport transformers\nTrainer(max_steps=3)\nEOF\npython a.py --max_steps 4\n";
        assert_eq!(said(&read_with(shell, None).unwrap()), "- - - - - - - 4 -");
    }
}
