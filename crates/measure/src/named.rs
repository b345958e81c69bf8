//! Declares enums whose variants have names in records, settings or on the wire. Crates such as strum are not
//! enough: their traits must be imported, and they generate no constants and descriptions.

/// Declares an enum from a table with one variant per line: `Variant "name"`, `Variant "name" "words"` or `Variant =
/// code "name"`. Generates `ALL` in table order, `name()`, `of_name()` and `write_rule()`, and `words()` or `of_code()`
/// if the table has descriptions or codes.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident { $($variant:ident $name:literal)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $Enum { $(#[doc = $name] $variant),* }
        $crate::named_enum! { @names $vis $Enum $($variant $name)* }
    };
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident { $($variant:ident $name:literal $words:literal)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $Enum { $(#[doc = $words] $variant),* }
        $crate::named_enum! { @names $vis $Enum $($variant $name)* }
        impl $Enum {
            $vis const fn words(self) -> &'static str { match self { $(Self::$variant => $words),* } }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident: $Code:ty { $($variant:ident = $code:literal $name:literal)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($Code)]
        $vis enum $Enum { $(#[doc = $name] $variant = $code),* }
        $crate::named_enum! { @names $vis $Enum $($variant $name)* }
        impl $Enum {
            $vis fn of_code(code: $Code) -> Option<Self> {
                Self::ALL.into_iter().find(|one| *one as $Code == code)
            }
        }
    };
    (@names $vis:vis $Enum:ident $($variant:ident $name:literal)*) => {
        #[allow(dead_code)] // No enum uses all of these items.
        impl $Enum {
            /// All variants in table order.
            $vis const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            $vis const fn name(self) -> &'static str { match self { $(Self::$variant => $name),* } }

            /// Returns the variant with this name.
            $vis fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }

            /// Writes the name of the rule with this number, for a `StatusTable` of broken rules.
            $vis fn write_rule(number: u32, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(Self::ALL.get(number as usize).map_or("an unknown rule", |one| one.name()))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    named_enum! {
        pub enum Coded: u16 {
            Newer = 9 "newer"
            Older = 3 "older"
        }
    }
    named_enum! {
        enum Ordinal {
            One "one" "the first"
            Two "two" "the second"
        }
    }

    #[test]
    fn names_and_codes_convert_back_to_their_variants() {
        assert_eq!(Coded::ALL, [Coded::Newer, Coded::Older]);
        for coded in Coded::ALL {
            assert_eq!(Coded::of_name(coded.name()), Some(coded));
            assert_eq!(Coded::of_code(coded as u16), Some(coded));
        }
        assert_eq!((Coded::of_name("Newer"), Coded::of_code(4)), (None, None));
        assert_eq!(Ordinal::ALL.map(Ordinal::words), ["the first", "the second"]);
    }
}
