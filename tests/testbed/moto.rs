//! moto, a fake AWS, as a process of its own on a loopback port. Installed once into the target folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::python::{environment, interpreter, say};

/// The version whose answers the tests were written against; where it cannot be had, any version will do.
const WANTED: &str = "moto[server]==5.2.5";
const ANY: &str = "moto[server]";

pub struct Moto {
    server: Child,
    /// Host and port.
    pub address: String,
    /// The interpreter that it runs in.
    pub python: PathBuf,
}

impl Moto {
    /// `None` where moto cannot be had here. Then the test is waived, and a line on stderr says so whatever the test runner hides.
    pub fn start(test: &str) -> Option<Self> {
        let started = environment("moto", &[WANTED], &[ANY]).and_then(|folder| serve(&folder));
        started.map_err(|why| say(&format!("WAIVED {test}: it needs moto, which cannot run here: {why}"))).ok()
    }

    /// Lets moto make up its EC2 in these regions, which it does at the first question and, on a busy machine, for longer than
    /// a program waits for a cloud.
    ///
    /// # Panics
    /// Where moto does not answer at all.
    pub fn open<'a>(&self, regions: impl IntoIterator<Item = &'a str>) {
        for region in regions {
            let asked = "Action=DescribeAvailabilityZones&Version=2016-11-15";
            let scope = format!(
                "AWS4-HMAC-SHA256 Credential=key/20260101/{region}/ec2/aws4_request, SignedHeaders=host, Signature=0"
            );
            let request = format!(
                "POST / HTTP/1.1\r\nHost: ec2.{region}.amazonaws.com\r\nAuthorization: {scope}\r\nConnection: close\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{asked}",
                asked.len()
            );
            let answer = TcpStream::connect(&self.address).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer)?;
                Ok(answer)
            });
            let answer = String::from_utf8_lossy(&answer.expect("moto listens")).into_owned();
            assert!(answer.contains(&format!("<regionName>{region}</regionName>")), "{region}: {answer}");
        }
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// It takes a free port itself and says which: one that was free a moment ago may be another test's by then. One request is answered
/// after the other: moto's lists are not made for a request that reads one while another changes it, and the answer would be a 500.
const SERVE: &str = "
import threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
moto, one = DomainDispatcherApplication(create_backend_app), threading.Lock()
def answer(environ, start_response):
    with one:
        return moto(environ, start_response)
server = make_server('127.0.0.1', 0, answer, threaded=True, request_handler=MotoRequestHandler)
print('%s:%s' % server.server_address[:2], flush=True)
server.serve_forever()
";

fn serve(folder: &Path) -> Result<Moto, String> {
    let mut command = Command::new(interpreter(folder));
    command.args(["-c", SERVE]);
    // Otherwise it would start any type, whether there is such a thing or not.
    command.env("MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION", "true");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let server = command.spawn().map_err(|error| error.to_string())?;
    let mut moto = Moto { server, address: String::new(), python: interpreter(folder) };
    let said = BufReader::new(moto.server.stdout.take().expect("it is piped")).lines().next();
    moto.address = said.and_then(Result::ok).ok_or("it ended before it listened")?;
    Ok(moto)
}
