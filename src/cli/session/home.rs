//! `Home`: where settings and the price cache lie: `GPUPLAN_HOME`, else the folders of the XDG base directory specification.

use std::env;
use std::path::PathBuf;

/// Folders of this user. `None` where the environment names no home at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    config: Option<PathBuf>,
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl Home {
    pub fn from_environment() -> Self {
        Self::from_variables(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        if let Some(home) = variable("GPUPLAN_HOME") {
            return Self { config: Some(home.clone()), cache: Some(home.clone()), state: Some(home) };
        }
        // A relative folder is to be ignored, says the specification.
        let xdg = |name: &str, below_home: &str| {
            let folder = variable(name)
                .filter(|folder| folder.is_absolute())
                .or_else(|| Some(variable("HOME")?.join(below_home)));
            folder.map(|folder| folder.join("gpuplan"))
        };
        Self {
            config: xdg("XDG_CONFIG_HOME", ".config"),
            cache: xdg("XDG_CACHE_HOME", ".cache"),
            state: xdg("XDG_STATE_HOME", ".local/state"),
        }
    }

    /// A file that the user writes, such as `policy.toml`.
    pub fn config_file(&self, name: &str) -> Option<PathBuf> {
        self.config.as_ref().map(|folder| folder.join(name))
    }

    /// What must not be lost: the journal of launches.
    pub fn state_file(&self, name: &str) -> Option<PathBuf> {
        self.state.as_ref().map(|folder| folder.join(name))
    }

    /// Prices that clouds answered.
    pub fn price_cache(&self) -> Option<PathBuf> {
        self.cache_file("prices.sqlite")
    }

    /// What can be had again.
    pub fn cache_file(&self, name: &str) -> Option<PathBuf> {
        self.cache.as_ref().map(|folder| folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(variables: &[(&str, &str)]) -> Home {
        Home::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn one_variable_holds_everything_and_xdg_is_the_default() {
        let own = home(&[("GPUPLAN_HOME", "/own"), ("HOME", "/h")]);
        assert_eq!(own.config_file("policy.toml"), Some("/own/policy.toml".into()));
        assert_eq!(own.price_cache(), Some("/own/prices.sqlite".into()));
        let plain = home(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(plain.config_file("a"), Some("/h/.config/gpuplan/a".into()));
        assert_eq!(plain.price_cache(), Some("/h/.cache/gpuplan/prices.sqlite".into()));
        assert_eq!(home(&[("XDG_CACHE_HOME", "/c")]).price_cache(), Some("/c/gpuplan/prices.sqlite".into()));
        assert_eq!(home(&[]), Home::default());
    }
}
