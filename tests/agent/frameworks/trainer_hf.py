#!/usr/bin/env python3
"""transformers.Trainer as a user writes it, with its own checkpoints and resume."""

import hashlib
import json
import os
import sys
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

STEPS, PACE = int(sys.argv[1]), float(sys.argv[2])
FOLDER = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.GELU(), torch.nn.Linear(16, 1))

    def forward(self, x, y):
        out = self.layers(x)
        return {"loss": torch.nn.functional.mse_loss(out, y), "logits": out}


class Paced(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        time.sleep(PACE)
        print(f"hf: step {state.global_step}", flush=True)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(512, 8)
    data = [{"x": x, "y": x.sum().sin().reshape(1)} for x in inputs]
    model = Net()
    wanted = dict(output_dir=FOLDER, max_steps=STEPS, save_steps=20, per_device_train_batch_size=8, learning_rate=1e-2, report_to=[])
    wanted.update(use_cpu=True, disable_tqdm=True, logging_steps=1000, seed=0, enable_jit_checkpoint=True, save_total_limit=3)
    trainer = Trainer(model=model, args=TrainingArguments(**wanted), train_dataset=data, callbacks=[Paced()])
    last = get_last_checkpoint(FOLDER) if os.path.isdir(FOLDER) else None
    print(f"hf: from {os.path.basename(last) if last else 'nothing'}", flush=True)
    trainer.train(resume_from_checkpoint=last)
    if trainer.state.global_step < STEPS:
        return
    weights = hashlib.sha256(b"".join(part.detach().numpy().tobytes() for part in model.state_dict().values())).hexdigest()
    with open("result.json", "w") as file:
        json.dump({"steps": trainer.state.global_step, "weights_sha256": weights}, file)


main()
