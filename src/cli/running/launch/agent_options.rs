//! What `launch` tells the agents of a run beside their job: where people are told what happens, what a stall is, what is kept.

use clap::Args;

use crate::running::agent::arguments::{duration, on_stall, signal};
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_agent::Framework;
use gpuplan_agent::ports::notify::PASSWORD;
use gpuplan_clouds::mail::has_password;
use gpuplan_clouds::reader::Reader;
use gpuplan_launch::Secret;

/// Options of `gpuplan agent`, checked here, before anything is rented, and passed on as they were written.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "What the agents do")]
pub struct AgentOptions {
    /// Send a JSON message to this address on start, interruption and end, and at 50, 80 and 100 % of the budget, or mail with
    /// smtps://USER@HOST?to=ADDRESS and --secret GPUPLAN_SMTP_PASSWORD=NAME; stored as --env is (--secret GPUPLAN_NOTIFY=NAME for an
    /// address that is a secret)
    #[arg(long, value_name = "URL")]
    pub notify: Option<String>,
    /// Consider the program stalled after this long without a step, checkpoint, output or CPU work; 0: never [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = length)]
    pub stall: Option<String>,
    /// Choose what happens to a stalled program: warn, stop or kill [default: warn]
    #[arg(long, value_name = "WHAT", value_parser = action)]
    pub on_stall: Option<String>,
    /// Also keep every checkpoint whose step is a multiple of this
    #[arg(long, value_name = "STEPS")]
    pub keep_every: Option<u64>,
    /// Keep this many of the latest checkpoints in the store [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_last: Option<u64>,
    /// Recognize complete checkpoints of this framework: auto, files, hf, lightning, dcp, deepspeed, megatron, orbax [default: auto]
    #[arg(long, value_name = "FRAMEWORK", value_parser = framework)]
    pub checkpoint_framework: Option<String>,
    /// Watch this folder, which the command saves its checkpoints to [default: checkpoints, or where it is seen to save]
    #[arg(long, value_name = "DIR")]
    pub checkpoints: Option<String>,
    /// Allow the command this long to save and end when it is asked to [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = length)]
    pub grace: Option<String>,
    /// Ask the command to save and end with this signal: TERM, INT, HUP, USR1 or USR2 [default: TERM]
    #[arg(long, value_name = "SIGNAL", value_parser = signal_name)]
    pub signal: Option<String>,
}

impl AgentOptions {
    /// The words for the agent's own command line.
    pub fn words(&self) -> Vec<String> {
        let number = |number: &Option<u64>| number.map(|number| number.to_string());
        let all = [
            ("--stall", self.stall.clone()),
            ("--on-stall", self.on_stall.clone()),
            ("--keep-every", number(&self.keep_every)),
            ("--keep-last", number(&self.keep_last)),
            ("--framework", self.checkpoint_framework.clone()),
            ("--checkpoints", self.checkpoints.clone()),
            ("--grace", self.grace.clone()),
            ("--signal", self.signal.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
    }

    /// An address that an agent would take, which machines have the password for.
    pub fn notified(&self, secrets: &[Secret], printer: &Printer) -> Result<Option<String>, Diagnostic> {
        let Some(address) = &self.notify else { return Ok(None) };
        let reader =
            Reader::parse(address).map_err(|error| Diagnostic::usage(error).hint("--notify https://HOST/PATH"))?;
        if reader.needs_password() {
            if !secrets.iter().any(|secret| secret.variable == PASSWORD) {
                return Err(Diagnostic::usage(
                    "the mail server wants a password of its user, which machines have to be given",
                )
                .hint(format!("--secret {PASSWORD}=NAME, the name of an entry of the cloud's secret store")));
            }
            if !has_password() {
                printer.warning(&format!(
                    "{PASSWORD} is not set here: agents send mail, but whoever leads the run does not, as when its budget is used up"
                ));
            }
        }
        Ok(Some(address.clone()))
    }
}

fn length(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

fn signal_name(text: &str) -> Result<String, String> {
    signal(text).map(|_| text.to_owned())
}

fn action(text: &str) -> Result<String, String> {
    on_stall(text).map(|_| text.to_owned())
}

fn framework(text: &str) -> Result<String, String> {
    text.parse::<Framework>().map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::running::agent::arguments::AgentArguments;

    #[derive(Debug, Parser)]
    struct Launched {
        #[command(flatten)]
        options: AgentOptions,
    }

    #[derive(Debug, Parser)]
    struct Started {
        #[command(flatten)]
        agent: AgentArguments,
    }

    #[test]
    fn every_option_is_one_that_the_agent_takes() {
        let given = [
            "launch",
            "--stall",
            "30m",
            "--on-stall",
            "kill",
            "--keep-every",
            "500",
            "--keep-last",
            "5",
            "--checkpoint-framework",
            "hf",
            "--checkpoints",
            "out/ckpt",
            "--grace",
            "2m",
            "--signal",
            "USR1",
        ];
        let words = Launched::try_parse_from(given).unwrap().options.words();
        assert_eq!(words.len(), 8);
        let all: Vec<String> = ["agent", "--store", "s3://b"]
            .map(str::to_owned)
            .into_iter()
            .chain(words)
            .chain(["--".to_owned(), "true".to_owned()])
            .collect();
        let agent = Started::try_parse_from(all).unwrap().agent;
        assert_eq!((agent.saving.keep_every, agent.saving.keep_last), (500, 5));
        assert_eq!((agent.stalls.stall.as_secs(), agent.notice.grace.as_secs()), (1800, 120));
        assert_eq!((agent.saving.folder().to_str(), agent.saving.framework.name()), (Some("out/ckpt"), "hf"));
        assert!(AgentOptions::default().words().is_empty());
        for wrong in [
            ["--stall", "10"],
            ["--on-stall", "dance"],
            ["--checkpoint-framework", "x"],
            ["--grace", "soon"],
            ["--signal", "KILL"],
            ["--keep-last", "0"],
        ] {
            assert!(Launched::try_parse_from(["launch", wrong[0], wrong[1]]).is_err(), "{wrong:?}");
        }
        let printer = Printer::new(false);
        let password = || vec![Secret { variable: PASSWORD.to_owned(), name: "gpuplan/smtp-password".to_owned() }];
        let asked = |url: &str, secrets: Vec<Secret>| {
            AgentOptions { notify: Some(url.to_owned()), ..AgentOptions::default() }.notified(&secrets, &printer)
        };
        assert!(asked("https://hooks.example/x", vec![]).is_ok() && asked("http://hooks.example/x", vec![]).is_err());
        let mail = "smtps://me@mail.example.com?to=me@example.org";
        assert_eq!(asked(mail, password()).unwrap().as_deref(), Some(mail));
        let lacks = asked(mail, vec![]).unwrap_err();
        assert!(lacks.hints.iter().any(|hint| hint.starts_with("--secret GPUPLAN_SMTP_PASSWORD=")), "{lacks:?}");
        assert!(asked("smtp://localhost:25?to=me@example.org", vec![]).is_ok(), "a relay wants no user");
    }
}
