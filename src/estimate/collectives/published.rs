//! The formulas against measurements: `benchmarks/collectives`.
#![cfg(test)]

use crate::collectives::{LinkKind, Operation, Topology, Transport, seconds};
use gpuplan_units::{Bytes, BytesPerSecond};
use serde::Deserialize;
use std::collections::BTreeMap;

static PUBLISHED: &str = include_str!("../../../benchmarks/collectives/published.csv");
static ONE_MACHINE: &str = include_str!("../../../benchmarks/collectives/one_machine.csv");

/// The columns of both tables that a prediction needs.
#[derive(Deserialize)]
struct Row {
    operation: String,
    gpu: String,
    gpus: u32,
    link_kind: String,
    link_gb_per_s_per_gpu: f64,
    message_bytes: f64,
    seconds: f64,
    gpus_per_machine: Option<f64>,
    gpus_per_link_domain: Option<u32>,
    fabric: Option<String>,
    nic_gbit_per_s_per_machine: Option<f64>,
    transport: Option<String>,
    note: Option<String>,
}

impl Row {
    fn operation(&self) -> Operation {
        match self.operation.as_str() {
            "all_reduce" => Operation::AllReduce,
            "all_gather" => Operation::AllGather,
            "reduce_scatter" => Operation::ReduceScatter,
            "all_to_all" => Operation::AllToAll,
            other => panic!("unknown operation {other}"),
        }
    }

    fn link(&self) -> LinkKind {
        match self.link_kind.as_str() {
            "nvlink2" => LinkKind::NvLink2,
            "nvlink3" => LinkKind::NvLink3,
            "nvlink4" => LinkKind::NvLink4,
            "nvlink5" => LinkKind::NvLink5,
            "infinity-fabric" => LinkKind::InfinityFabric,
            "pcie" => LinkKind::Pcie,
            other => panic!("unknown link {other}"),
        }
    }

    fn topology(&self) -> Topology {
        let machine = self.gpus_per_machine.unwrap_or(1.0);
        Topology {
            ranks: self.gpus,
            ranks_per_machine: self.gpus_per_link_domain.unwrap_or(self.gpus),
            link: self.link(),
            link_bandwidth: BytesPerSecond(self.link_gb_per_s_per_gpu * 1e9),
            switch_reduction: !self.note.as_deref().unwrap_or_default().contains("NCCL_NVLS_ENABLE=0"),
            transport: match self.transport.as_deref() {
                Some("efa") => Transport::Efa,
                Some("tcpx") => Transport::Tcp,
                _ => Transport::Rdma,
            },
            network_bandwidth: BytesPerSecond::from_gbit(self.nic_gbit_per_s_per_machine.unwrap_or(0.0) / machine),
            oversubscription: 1.0,
        }
    }

    /// Predicted over measured, less one.
    fn error(&self) -> f64 {
        seconds(self.operation(), Bytes(self.message_bytes), &self.topology()).0 / self.seconds - 1.0
    }
}

fn rows(table: &str) -> Vec<Row> {
    csv::Reader::from_reader(table.as_bytes()).deserialize().map(Result::unwrap).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the errors of each kind of row, and returns the median of their sizes over all rows.
fn judge(rows: &[Row], kind: impl Fn(&Row) -> String) -> f64 {
    let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in rows {
        kinds.entry(kind(row)).or_default().push(row.error());
        kinds.entry(format!("all {}", row.operation)).or_default().push(row.error());
    }
    for (name, errors) in &kinds {
        let size = median(errors.iter().map(|error| error.abs()).collect());
        let bias = median(errors.clone());
        println!("{name:55} {:4} rows: median {:5.1} %, bias {:+5.1} %", errors.len(), size * 100.0, bias * 100.0);
    }
    let all = median(rows.iter().map(|row| row.error().abs()).collect());
    println!("all {} rows: {:.1} %", rows.len(), all * 100.0);
    all
}

#[test]
fn published_measurements_are_met() {
    let rows = rows(PUBLISHED);
    assert!(rows.len() >= 200 && rows.iter().any(|row| row.gpus >= 1024));
    let error = judge(&rows, |row| row.fabric.clone().unwrap_or_default());
    assert!(error < 0.10, "{error}");
}

#[test]
fn machines_measured_alone_are_met() {
    let rows = rows(ONE_MACHINE);
    let error = judge(&rows, |row| row.gpu.clone());
    assert!(error < 0.16, "{error}");
}
