#![no_main]

libfuzzer_sys::fuzz_target!(
    // Panics of the Parquet reader are caught by `columnar::read`, so the hook of libFuzzer may not end the process at
    // them. A panic that nobody catches still ends it.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| gpuplan_fuzz::bill_parquet(data)
);
