//! Counters through NVML: all of `nvidia-smi`'s, and what goes over PCIe and NVLink.
