//! `Liveness`: whether a gang lives, by what was seen to change. An old word is no sign of life, and who is blind knows nothing.

/// One word of a gang's agent: no two words have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// Of the run's store.
    pub epoch: u64,
    /// Counts up with every heartbeat.
    pub beat: u64,
}

/// For how long a gang was watched without a sign of life. Seconds of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Liveness {
    sign: Option<Sign>,
    silent: f64,
    /// `None`: the store did not answer the last time, or was not asked yet.
    looked_at: Option<f64>,
}

impl Liveness {
    /// From now on.
    pub fn watched_since(now: f64) -> Self {
        Self { looked_at: Some(now), ..Self::default() }
    }

    /// The store said so. Whether it is news; `None`: it says nothing of the gang.
    pub fn saw(&mut self, now: f64, sign: Option<Sign>, longest_step: f64) -> bool {
        // Nobody was watched by a leader that slept or saw nothing, and the gang may have been kept from speaking for as long.
        let watched = self.looked_at.map_or(0.0, |before| (now - before).clamp(0.0, longest_step));
        self.looked_at = Some(now);
        self.silent += watched;
        let is_news = sign.is_some() && sign != self.sign;
        self.sign = sign.or(self.sign);
        is_news
    }

    /// Some word of it was seen, old or new.
    pub fn has_spoken(&self) -> bool {
        self.sign.is_some()
    }

    /// What was news is a sign of life.
    pub fn lives(&mut self) {
        self.silent = 0.0;
    }

    /// The store did not answer: what the gang does is unknown until it does.
    pub fn is_not_seen(&mut self) {
        self.looked_at = None;
    }

    pub fn is_blind(&self) -> bool {
        self.looked_at.is_none()
    }

    /// Watched without a sign of life.
    pub fn silent(&self) -> f64 {
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: f64 = 60.0;

    fn sign(beat: u64) -> Sign {
        Sign { epoch: 1, beat }
    }

    #[test]
    fn an_old_word_is_no_sign_of_life() {
        let mut liveness = Liveness::watched_since(0.0);
        assert!(liveness.saw(10.0, Some(sign(1)), STEP));
        liveness.lives();
        assert!(!liveness.saw(20.0, Some(sign(1)), STEP) && !liveness.saw(30.0, None, STEP));
        assert_eq!(liveness.silent(), 20.0);
        assert!(liveness.saw(40.0, Some(Sign { epoch: 2, beat: 1 }), STEP), "another epoch is another word");
    }

    #[test]
    fn time_in_which_nobody_could_look_is_no_silence() {
        let mut liveness = Liveness::watched_since(0.0);
        liveness.saw(10.0, Some(sign(1)), STEP);
        liveness.lives();
        liveness.is_not_seen();
        assert!(liveness.is_blind());
        liveness.saw(5000.0, Some(sign(1)), STEP);
        assert_eq!((liveness.silent(), liveness.is_blind()), (0.0, false), "one look after the gap says nothing yet");
        // The leader slept.
        liveness.saw(9000.0, Some(sign(1)), STEP);
        assert_eq!(liveness.silent(), STEP);
    }
}
