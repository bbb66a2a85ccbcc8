//! A notebook of Jupyter (nbformat 4): its cells as one program of Python and one script of a shell (`!torchrun ...`, `%%bash`), and the card that
//! Colab and Kaggle write into its metadata.

use serde_json::Value;

use super::python::training;
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, chips, command};
use gpuplan_workload::assumption::JobAssumption;

/// Kaggle's accelerators by the word in a notebook's metadata, with the cards of a session (Kaggle's documentation of notebooks, "Technical
/// specifications"): a session with T4 has two.
const OF_KAGGLE: [(&str, &str, u32); 4] =
    [("nvidiaTeslaT4", "T4", 2), ("nvidiaTeslaP100", "P100", 1), ("gpu", "P100", 1), ("nvidiaL4", "L4", 4)];

pub fn is_notebook(document: &Value) -> bool {
    document.get("nbformat").is_some() && document.get("cells").is_some_and(Value::is_array)
}

pub fn read(document: &Value, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Script);
    card(document.get("metadata").unwrap_or(&Value::Null), &mut asked, names);
    let (python, shell) = texts(document);
    if training::is_program(&python) {
        training::read(&python, &[], &mut asked, names);
    }
    command::read(&shell, &[], &mut asked, names);
    asked.take_machines_of_launcher();
    if asked.understood.is_empty() && asked.unread.is_empty() {
        return Err(ImportError::UnknownKind);
    }
    // A notebook runs on the machine that its kernel runs on.
    if !asked.choices.is_empty() {
        asked.nodes.get_or_insert(1..=1);
    }
    Ok(asked)
}

/// `"accelerator": "GPU", "colab": {"gpuType": "A100"}` of Colab, `"kaggle": {"accelerator": "nvidiaTeslaT4"}` of Kaggle.
fn card(metadata: &Value, asked: &mut JobRequest, names: Names) {
    let word = |path: &str| metadata.pointer(path).and_then(Value::as_str);
    let of_kaggle = word("/kaggle/accelerator");
    let session = of_kaggle.and_then(|word| OF_KAGGLE.iter().find(|(name, ..)| *name == word));
    let (name, count) = match (session, word("/colab/gpuType"), word("/accelerator")) {
        (Some((_, name, count)), ..) => (Some(*name), *count),
        (None, Some(name), _) => (Some(name), 1),
        // Colab's own choice, which it calls a GPU and nothing else.
        (None, None, Some("GPU")) => (None, 1),
        _ => return,
    };
    let chips = name.and_then(|name| chips::named(name, names.hardware));
    asked.choices.push(Choice { chips, gpus: Some(Gpus::PerMachine(count)), ..Choice::default() });
    asked.understand("accelerator", of_kaggle.or(name).unwrap_or("GPU"));
    asked.nodes = Some(1..=1);
    asked.assumed.push(JobAssumption::OneMachine);
}

/// Cells with code: what Python reads, and what a shell does.
fn texts(document: &Value) -> (String, String) {
    let (mut python, mut shell) = (String::new(), String::new());
    for cell in document.get("cells").and_then(Value::as_array).into_iter().flatten() {
        if cell.get("cell_type").and_then(Value::as_str) != Some("code") {
            continue;
        }
        let source = match cell.get("source") {
            Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect::<String>(),
            Some(Value::String(text)) => text.clone(),
            _ => continue,
        };
        let first = source.lines().next().unwrap_or_default();
        if ["%%bash", "%%sh", "%%shell", "%%script bash"].iter().any(|magic| first.starts_with(magic)) {
            shell.push_str(source.split_once('\n').map_or("", |(_, rest)| rest));
            shell.push('\n');
        } else if let Some(path) = first.strip_prefix("%%writefile ").or_else(|| first.strip_prefix("%%file ")) {
            // What a cell writes a later one starts.
            let body = source.split_once('\n').map_or("", |(_, rest)| rest);
            shell.push_str(&format!("cat > {path} <<'END_OF_CELL'\n{body}\nEND_OF_CELL\n"));
        } else if !first.starts_with("%%") {
            lines(&source, &mut python, &mut shell);
        }
    }
    (python, shell)
}

/// Lines of a cell: those behind `!` are a shell's, with what a backslash continues, and its variables of Python (`{model}`, `$model`) unknown.
fn lines(source: &str, python: &mut String, shell: &mut String) {
    let mut continues = false;
    for line in source.lines() {
        let command = line.trim_start().strip_prefix('!');
        if let Some(text) = command.or(continues.then_some(line)) {
            shell.push_str(&text.replace('{', "${"));
            shell.push('\n');
            continues = line.trim_end().ends_with('\\');
        } else if let Some(set) = line.strip_prefix("%env ") {
            let (name, value) = set.split_once(['=', ' ']).unwrap_or((set, ""));
            shell.push_str(&format!("export {}={}\n", name.trim(), command::quote(value.trim())));
        } else if !line.starts_with('%') {
            python.push_str(line);
            python.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;
    use serde_json::json;

    fn asked(metadata: &Value, cells: &[&str]) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let cells: Vec<Value> =
            cells.iter().map(|source| json!({"cell_type": "code", "source": source, "outputs": []})).collect();
        let text = json!({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}).to_string();
        crate::read(&text, Names::new(&hardware, &models))
    }

    fn batch(read: &JobRequest) -> Option<String> {
        read.workload.training.micro_batch.as_ref().map(ToString::to_string)
    }

    #[test]
    fn cells_are_one_program_on_the_card_of_the_session() {
        let cells = [
            "!pip install -q trl peft\nfrom trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig\n",
            "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained(\n    \"Qwen/Qwen2.5-0.5B\"\n)",
            "trainer = SFTTrainer(model=model, peft_config=LoraConfig(r=8),\n    args=SFTConfig(per_device_train_batch_size=3, max_steps=60))\ntrainer.train()",
        ];
        let read = asked(&json!({"accelerator": "GPU", "colab": {"gpuType": "L4"}}), &cells).unwrap();
        assert_eq!((read.gpus(), read.nodes.clone()), (Some(1), Some(1..=1)));
        assert_eq!(read.choices[0].chips.as_ref().map(|chips| chips.word.as_str()), Some("L4"));
        assert_eq!((read.model_name.as_deref(), batch(&read).as_deref()), (Some("Qwen/Qwen2.5-0.5B"), Some("3")));
        let kaggle = asked(&json!({"kaggle": {"accelerator": "nvidiaTeslaT4"}}), &cells).unwrap();
        assert_eq!(kaggle.gpus(), Some(2));
        assert!(asked(&json!({"kaggle": {"accelerator": "none"}}), &cells).unwrap().choices.is_empty());
    }

    #[test]
    fn lines_of_a_shell_start_programs() {
        let cells = [
            "%env CUDA_VISIBLE_DEVICES=0,1",
            "name = 'x'\n!torchrun --nproc_per_node 2 run_clm.py \\\n  --model_name_or_path google/gemma-2-2b \\\n  --per_device_train_batch_size 6 --output_dir {name}",
            "%%html\n<b>torchrun --nproc_per_node 8 a.py</b>",
        ];
        let read = asked(&Value::Null, &cells).unwrap();
        assert_eq!((read.gpus(), batch(&read).as_deref()), (Some(2), Some("6")));
        let bash = ["%%bash\npython run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 5\n"];
        assert_eq!(batch(&asked(&json!({"accelerator": "GPU"}), &bash).unwrap()).as_deref(), Some("5"));
        let written = [
            "%%writefile tune.sh\npython run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 7\n",
            "!bash tune.sh",
        ];
        assert_eq!(batch(&asked(&Value::Null, &written).unwrap()).as_deref(), Some("7"));
        assert_eq!(asked(&Value::Null, &["print(1)"]), Err(ImportError::UnknownKind));
    }
}
