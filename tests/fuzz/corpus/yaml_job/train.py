import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--rank", default=8)
args = parser.parse_args()
SFTTrainer(
    model="gpt2",
    args=SFTConfig(max_length=64, per_device_train_batch_size=2 * args.rank),
    peft_config=LoraConfig(r=args.rank, target_modules=["q_proj", "v_proj"]),
).train()
