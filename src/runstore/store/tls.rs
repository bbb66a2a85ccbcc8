//! The arithmetic of TLS, one for every client of the process.

/// To be called before a client is built: `reqwest`, the clients of stores among its users, comes without any and panics where none
/// was chosen. It stays what it is if the program around this one has chosen.
pub fn install_tls() {
    rustls::crypto::ring::default_provider().install_default().ok();
}
