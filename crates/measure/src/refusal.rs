//! At which step of making a session it was refused, and over what: a status alone does not tell a share that denies a
//! user from a server that denies the log-on.
//!
//! Not for what to try: that depends on the protocol's options, and stands beside them (`crates/smb/src/advice.rs`).

macro_rules! refusals {
    ($($variant:ident $words:literal)*) => {
        /// Why a session with a file server was not made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Refusal { $(#[doc = $words] $variant),* }

        impl Refusal {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// In words.
            #[must_use]
            pub fn words(self) -> &'static str { match self { $(Self::$variant => $words),* } }
        }
    };
}

refusals! {
    NotSmb "what answered the first message does not speak SMB 2 or 3"
    Dialect "the server has none of the versions that were offered"
    NoEncryption "encryption was asked for, and the server has none in common with us"
    SigningWanted "the server requires signatures, which were turned off"
    LogOn "the log-on was refused"
    EncryptionWanted "the server requires encryption, which was not asked for"
    Guest "the server knows no such user and let us in as a guest"
    GuestUnprotected "a guest's session can be neither signed nor encrypted, as was asked for"
    Share "the share was refused"
    NoFiles "the share is none of files, but of a printer or pipes"
    ShareEncryption "the share requires encryption, which was not asked for"
    Changed "somebody between client and server changed the negotiation"
}
