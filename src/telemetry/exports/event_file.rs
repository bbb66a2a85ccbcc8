//! TensorBoard event files: TFRecord frames around protobuf events with scalars, written by hand since they are this small.
//!
//! A frame is length, its checksum, data, its checksum, all little-endian ("TFRecord and tf.train.Example", TensorFlow guide).
//! Fields of the messages are those of `tensorflow/core/util/event.proto` and `tensorflow/core/framework/summary.proto`.

use crate::exports::metrics::metrics;
use crate::samples::Sample;

/// The first record of a file; readers refuse one without it.
pub fn header(at_unix_seconds: f64) -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, at_unix_seconds);
    bytes(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// A sample as one event. TensorBoard draws over `step`; here it is the number of the sample.
pub fn sample_record(sample: &Sample, number: u64) -> Vec<u8> {
    let mut summary = Vec::new();
    for metric in metrics(sample) {
        let tag = metric.name.replacen("gpuplan_", "gpuplan/", 1);
        let tag = metric.gpu.map_or(tag.clone(), |gpu| format!("{tag}/gpu{gpu}"));
        let mut value = Vec::new();
        bytes(&mut value, 1, tag.as_bytes());
        float(&mut value, 2, metric.value as f32);
        bytes(&mut summary, 1, &value);
    }
    let mut event = Vec::new();
    double(&mut event, 1, sample.at_unix_seconds);
    varint_field(&mut event, 2, number);
    bytes(&mut event, 5, &summary);
    record(&event)
}

/// The name that TensorBoard looks for.
pub fn file_name(at_unix_seconds: f64, host: &str) -> String {
    format!("events.out.tfevents.{}.{host}.gpuplan", at_unix_seconds as u64)
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(data.len() + 16);
    framed.extend(length);
    framed.extend(masked(crc32c(&length)).to_le_bytes());
    framed.extend(data);
    framed.extend(masked(crc32c(data)).to_le_bytes());
    framed
}

/// A checksum of data that holds checksums is rotated and moved by a constant (TensorFlow, `lib/hash/crc32c.h`).
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), bit by bit: a file has a few kilobytes a second.
fn crc32c(data: &[u8]) -> u32 {
    let mut checksum = !0_u32;
    for byte in data {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = if checksum & 1 == 1 { (checksum >> 1) ^ 0x82f6_3b78 } else { checksum >> 1 };
        }
    }
    !checksum
}

/// Protobuf wire format: a field is its number and kind, then the value (protobuf.dev, "Encoding").
fn key(into: &mut Vec<u8>, field: u64, kind: u64) {
    varint(into, field << 3 | kind);
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn varint_field(into: &mut Vec<u8>, field: u64, value: u64) {
    key(into, field, 0);
    varint(into, value);
}

fn double(into: &mut Vec<u8>, field: u64, value: f64) {
    key(into, field, 1);
    into.extend(value.to_le_bytes());
}

fn float(into: &mut Vec<u8>, field: u64, value: f32) {
    key(into, field, 5);
    into.extend(value.to_le_bytes());
}

fn bytes(into: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(into, field, 2);
    varint(into, value.len() as u64);
    into.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::metrics::example;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and ascending.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    #[test]
    fn a_header_is_the_bytes_that_tensorboard_expects() {
        let found = header(0.0);
        assert_eq!(&found[..8], 24_u64.to_le_bytes());
        assert_eq!(&found[12..21], &[9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&found[21..36], b"\x1a\x0dbrain.Event:2");
        assert_eq!(found.len(), 24 + 16);
    }

    #[test]
    fn a_sample_names_its_scalars() {
        let found = sample_record(&example(), 300);
        let text = String::from_utf8_lossy(&found);
        assert!(text.contains("gpuplan/gpu_busy_ratio/gpu1") && text.contains("gpuplan/step_seconds"));
        assert_eq!(file_name(12.7, "box"), "events.out.tfevents.12.box.gpuplan");
    }
}
