//! What frameworks send: into how many messages they cut gradients and weights.

use gpuplan_units::Bytes;

/// Least bucket of Megatron-Core, and what every data-parallel rank adds to it, in parameters: `max(40e6, 1e6 x ranks)`
/// (NVIDIA/Megatron-LM, megatron/core/distributed/distributed_data_parallel_config.py, `bucket_size`).
const MEGATRON_LEAST: f64 = 40e6;
const MEGATRON_PER_RANK: f64 = 1e6;

/// PyTorch DDP: a first bucket of 1 MiB, so that traffic starts early, and 25 MiB from then on (pytorch/pytorch,
/// torch/csrc/distributed/c10d/reducer.hpp, `kDefaultFirstBucketBytes` and `kDefaultBucketBytesCap`).
const DDP_FIRST: f64 = 1_048_576.0;
const DDP_FURTHER: f64 = 25.0 * 1_048_576.0;

/// DeepSpeed, elements: `reduce_bucket_size` and `allgather_bucket_size` of ZeRO-1 and 2, `stage3_prefetch_bucket_size` of
/// ZeRO-3 (microsoft/DeepSpeed, deepspeed/runtime/zero/config.py).
const DEEPSPEED: f64 = 5e8;
const DEEPSPEED_PREFETCH: f64 = 5e7;

/// How a framework groups tensors. The defaults; users may set other sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucketing {
    /// Gradients, and weights of the distributed optimizer. Without overlap of either all of them are one message
    /// (megatron/core/distributed/distributed_data_parallel.py).
    MegatronCore { data_parallel: u32, overlapped: bool },
    /// Gradients of PyTorch's `DistributedDataParallel`.
    Ddp,
    /// A unit of PyTorch's FSDP 1 or 2: usually a transformer block, and one for embedding and head, which wraps the rest
    /// (PyTorch documentation, `torch.distributed.fsdp.fully_shard`: every wrapped module is one group of parameters that is
    /// gathered and reduced together).
    Fsdp { blocks: u32 },
    /// ZeRO-1 and ZeRO-2.
    DeepSpeed,
    /// Weights of ZeRO-3 that are fetched ahead of their use.
    DeepSpeedPrefetch,
}

/// Messages of the same size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    pub count: f64,
    /// Of one of them.
    pub bytes: Bytes,
}

/// Messages that move `parameters` once, at so many bytes each. Tensors are taken for small beside a bucket; one that is
/// larger is a message of its own. No messages for no parameters.
pub fn messages(bucketing: Bucketing, parameters: f64, bytes_per_parameter: f64) -> Messages {
    let total = (parameters * bytes_per_parameter).max(0.0);
    if total <= 0.0 {
        return Messages { count: 0.0, bytes: Bytes(0.0) };
    }
    let buckets = |elements: f64| (parameters / elements).ceil();
    let count = match bucketing {
        Bucketing::MegatronCore { overlapped: false, .. } => 1.0,
        Bucketing::MegatronCore { data_parallel, overlapped: true } => {
            buckets((MEGATRON_PER_RANK * f64::from(data_parallel)).max(MEGATRON_LEAST))
        }
        Bucketing::Ddp => 1.0 + ((total - DDP_FIRST) / DDP_FURTHER).ceil().max(0.0),
        Bucketing::Fsdp { blocks } => f64::from(blocks) + 1.0,
        Bucketing::DeepSpeed => buckets(DEEPSPEED),
        Bucketing::DeepSpeedPrefetch => buckets(DEEPSPEED_PREFETCH),
    };
    Messages { count, bytes: Bytes(total / count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_dozen_messages_and_fewer_with_more_ranks() {
        let megatron =
            |data_parallel| messages(Bucketing::MegatronCore { data_parallel, overlapped: true }, 7.5e9, 2.0).count;
        // 15 billion parameters, half of them on a rank: 188 buckets of 40 million, and 8 of 1,024 million.
        assert_eq!((megatron(8), megatron(40), megatron(1024)), (188.0, 188.0, 8.0));
        let whole = messages(Bucketing::MegatronCore { data_parallel: 8, overlapped: false }, 7.5e9, 2.0);
        assert_eq!(whole, Messages { count: 1.0, bytes: Bytes(15e9) });
    }

    #[test]
    fn every_framework_moves_every_byte() {
        let all = [
            (Bucketing::MegatronCore { data_parallel: 64, overlapped: true }, 110.0),
            (Bucketing::Ddp, 1.0 + 1069.0),
            (Bucketing::Fsdp { blocks: 32 }, 33.0),
            (Bucketing::DeepSpeed, 14.0),
            (Bucketing::DeepSpeedPrefetch, 140.0),
        ];
        for (bucketing, count) in all {
            let sent = messages(bucketing, 7e9, 4.0);
            assert_eq!(sent.count, count, "{bucketing:?}");
            assert!((sent.count * sent.bytes.0 - 28e9).abs() < 1.0, "{bucketing:?}");
        }
        assert_eq!(messages(Bucketing::Ddp, 1e5, 4.0).count, 1.0);
        assert_eq!(messages(Bucketing::Ddp, 0.0, 4.0).count, 0.0);
    }
}
