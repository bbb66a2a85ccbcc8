#!/usr/bin/env python3
"""Lightning with `save_on_exception`, so that SIGTERM leaves a checkpoint."""

import hashlib
import json
import os
import sys
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

STEPS, PACE = int(sys.argv[1]), float(sys.argv[2])
FOLDER = os.environ.get("GPUPLAN_CKPT_DIR", "checkpoints")


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        time.sleep(PACE)
        print(f"lightning: step {self.global_step}", flush=True)
        return torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # The same batch each step: Lightning goes on at the right step, but its loader begins anew.
    inputs = torch.randn(8, 8).repeat(STEPS, 1)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    keeping = ModelCheckpoint(dirpath=FOLDER, filename="{step}", every_n_train_steps=20, save_top_k=-1, save_on_exception=True)
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", devices=1)
    trainer = lightning.Trainer(max_steps=STEPS, max_epochs=1, callbacks=[keeping], **quiet)
    model, resume = Net(), os.environ.get("GPUPLAN_RESUME_FROM") or None
    print(f"lightning: from {os.path.basename(resume) if resume else 'nothing'}", flush=True)
    trainer.fit(model, loader, ckpt_path=resume, weights_only=False)
    if trainer.global_step < STEPS:
        return
    weights = hashlib.sha256(b"".join(part.detach().numpy().tobytes() for part in model.state_dict().values())).hexdigest()
    with open("result.json", "w") as file:
        json.dump({"steps": trainer.global_step, "weights_sha256": weights}, file)


main()
