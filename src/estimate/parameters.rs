//! `Parameter`: what is known of a constant before any run is looked at, and the table that declares constants with it.

/// Scale on which a constant is fitted: a positive number, or a share between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Log,
    Share,
}

/// One constant of a set `C`.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<C> {
    pub name: &'static str,
    pub scale: Scale,
    pub prior: f64,
    /// Relative standard deviation. Zero means judged: no published run decides it, so it keeps its prior.
    pub width: f64,
    pub unit: &'static str,
    pub get: fn(&C) -> f64,
    pub set: fn(&mut C, f64),
}

/// Declares a set of constants: a struct of that name, its priors, and a list of its parameters. A row reads
/// `name: Scale prior +- width "unit";` below its reason.
macro_rules! constants {
    ($set:ident, $list:ident; $($(#[$doc:meta])* $name:ident: $scale:ident $prior:literal +- $width:literal $unit:literal;)*) => {
        /// One value for every constant.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $set {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl $set {
            /// The priors themselves.
            pub fn prior() -> Self {
                Self { $($name: $prior,)* }
            }
        }

        /// Every constant, fitted or judged.
        pub const $list: &[Parameter<$set>] = &[
            $(Parameter {
                name: stringify!($name),
                scale: Scale::$scale,
                prior: $prior,
                width: $width,
                unit: $unit,
                get: |constants| constants.$name,
                set: |constants, value| constants.$name = value,
            },)*
        ];
    };
}
pub(crate) use constants;
