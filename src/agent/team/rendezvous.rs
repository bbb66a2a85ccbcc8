//! Where the programs of several machines meet: an address of the first machine and a port that is free there, told through the store.
//!
//! Only the first machine has to know it, and only when it runs: nobody needs an address before machines are rented.

use std::env;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};

use crate::ports::logger::Logger;
use crate::team::rank::Rank;
use gpuplan_runstore::Rendezvous;

/// Addresses for documentation (RFC 5737, RFC 3849), with the local one to look from. Nothing is ever sent to them.
const ELSEWHERE: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// On this machine. Programs that need none run without it, and those that do may be told an address.
pub fn here(address: Option<IpAddr>, logger: &dyn Logger) -> Option<Rendezvous> {
    let found = find(address);
    if let Err(error) = &found {
        logger.say(&format!("warning: no address of this machine is known ({error}), so the programs get no rendezvous; set it with --address IP"));
    }
    found.ok()
}

/// The port is free now; the program is to take it soon.
fn find(address: Option<IpAddr>) -> io::Result<Rendezvous> {
    let host = address.map_or_else(address_of_route, Ok)?;
    let port = TcpListener::bind((if host.is_ipv4() { "0.0.0.0" } else { "::" }, 0))?.local_addr()?.port();
    Ok(Rendezvous { host: host.to_string(), port })
}

/// Which of its addresses this machine sends from: a socket that is told its peer picks one without sending anything.
fn address_of_route() -> io::Result<IpAddr> {
    let picked = |(from, to)| {
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    ELSEWHERE
        .into_iter()
        .map(picked)
        .reduce(io::Result::or)
        .unwrap_or_else(|| Err(io::ErrorKind::AddrNotAvailable.into()))
}

/// What the program is told, save what its user has set: the usual two variables of PyTorch, and those that torchrun takes for
/// options that are not given (torch/distributed/argparse_util.py of PyTorch), so that it forms one team without any option.
pub fn environment(rendezvous: Option<&Rendezvous>, rank: Rank) -> Vec<(String, String)> {
    let Some(Rendezvous { host, port }) = rendezvous else { return Vec::new() };
    let port = port.to_string();
    let all = [
        ("MASTER_ADDR", host.clone()),
        ("MASTER_PORT", port.clone()),
        ("PET_NNODES", rank.nodes.to_string()),
        ("PET_NODE_RANK", rank.node.to_string()),
        ("PET_MASTER_ADDR", host.clone()),
        ("PET_MASTER_PORT", port),
    ];
    all.into_iter()
        .filter(|(name, _)| env::var_os(name).is_none())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_machine_says_where_it_is_met_and_every_program_is_told_its_place() {
        let found = find(Some(Ipv4Addr::LOCALHOST.into())).unwrap();
        assert!(TcpListener::bind((found.host.as_str(), found.port)).is_ok(), "{found:?} is free");
        let told = environment(Some(&found), Rank { node: 1, nodes: 3 });
        let of = |name: &str| told.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!((of("MASTER_ADDR"), of("PET_MASTER_ADDR")), (Some("127.0.0.1"), Some("127.0.0.1")));
        assert_eq!((of("PET_NODE_RANK"), of("PET_NNODES")), (Some("1"), Some("3")));
        assert_eq!(of("MASTER_PORT"), Some(found.port.to_string()).as_deref());
        assert!(environment(None, Rank::ALONE).is_empty());
    }
}
