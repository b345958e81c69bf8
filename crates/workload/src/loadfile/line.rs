//! One line of a load file: the operation's name, its arguments, and the server's status.
//!
//! `follow.rs` interprets lines in sequence.

use crate::MOST_BYTES_AT_ONCE;

/// The recorded answer of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ok,
    NotThere,
}

/// Defines the requests: the name of each in load files, the number of arguments between name and status, and
/// the arguments that are used, which are the first ones.
macro_rules! requests {
    ($($name:literal $count:literal $request:ident { $($field:ident: $type:ty),* })*) => {
        /// The request. Paths and handle numbers are as recorded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Request<'a> {
            $($request { $($field: $type),* },)*
        }

        const OPERATIONS: [(&str, usize); [$($count),*].len()] = [$(($name, $count)),*];

        impl<'a> Request<'a> {
            fn read(name: &str, arguments: &[&'a str]) -> Result<Self, String> {
                let mut words = arguments.iter();
                match name {
                    $($name => Ok(Self::$request { $($field: Argument::next(&mut words)?),* }),)*
                    _ => unreachable!("the name is in the table"),
                }
            }
        }
    };
}

requests! {
    "NTCreateX" 4 Open { path: &'a str, options: u64, disposition: u64, handle: u64 }
    "Close" 1 Close { handle: u64 }
    "ReadX" 4 Read { handle: u64, offset: u64, bytes: u32 }
    "WriteX" 4 Write { handle: u64, offset: u64, bytes: u32 }
    "Flush" 1 Flush { handle: u64 }
    "LockX" 3 Lock { handle: u64, offset: u64, bytes: u64 }
    "UnlockX" 3 Unlock { handle: u64, offset: u64, bytes: u64 }
    "QUERY_FILE_INFORMATION" 2 QueryFile { handle: u64 }
    "SET_FILE_INFORMATION" 2 SetTimes { handle: u64 }
    "QUERY_PATH_INFORMATION" 2 QueryPath { path: &'a str }
    "QUERY_FS_INFORMATION" 1 QuerySpace {}
    "FIND_FIRST" 4 Find { path: &'a str }
    "Rename" 2 Rename { from: &'a str, to: &'a str }
    "Unlink" 2 Delete { path: &'a str }
    "Mkdir" 1 MakeDirectory { path: &'a str }
    "Rmdir" 1 RemoveDirectory { path: &'a str }
    "Deltree" 1 DeleteTree { path: &'a str }
}

trait Argument<'a>: Sized {
    fn of(word: &'a str) -> Result<Self, String>;

    fn next(words: &mut std::slice::Iter<'_, &'a str>) -> Result<Self, String> {
        Self::of(words.next().expect("there are as many as the operation has"))
    }
}

impl<'a> Argument<'a> for &'a str {
    fn of(word: &'a str) -> Result<Self, String> {
        Ok(word)
    }
}

impl Argument<'_> for u64 {
    /// Reads a decimal or hexadecimal number.
    fn of(word: &str) -> Result<Self, String> {
        let number = match word.strip_prefix("0x") {
            Some(digits) => Self::from_str_radix(digits, 16),
            None => word.parse(),
        };
        number.map_err(|_| format!("\"{word}\" is not a number"))
    }
}

impl Argument<'_> for u32 {
    /// Reads a number of bytes. Larger numbers become the largest number, which `check` rejects.
    fn of(word: &str) -> Result<Self, String> {
        Ok(Self::try_from(u64::of(word)?).unwrap_or(Self::MAX))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Name of the operation in the load file.
    pub(super) name: &'static str,
    pub(super) request: Request<'a>,
    pub(super) answer: Answer,
}

const MOST_ARGUMENTS: usize = 4;
/// Levels of SET_FILE_INFORMATION that set times and attributes, in SMB1's and Windows's numbering.
const BASIC_INFORMATION: [u64; 2] = [257, 1004];

/// Parses one line. Returns None for an empty line or a comment.
pub(super) fn parse(line: &str) -> Result<Option<Line<'_>>, String> {
    let mut words = Words { rest: line };
    let Some(first) = words.next()? else {
        return Ok(None);
    };
    if first.starts_with('#') {
        return Ok(None);
    }
    let Some((name, count)) = OPERATIONS.into_iter().find(|(name, _)| *name == first) else {
        return Err(match first.parse::<f64>() {
            Ok(_) => "begins with a time; timed load files can't be replayed".to_owned(),
            Err(_) => format!("\"{first}\" is not an operation of load files"),
        });
    };
    let mut arguments = [""; MOST_ARGUMENTS];
    for argument in &mut arguments[..count] {
        *argument = words
            .next()?
            .ok_or_else(|| format!("{name} has {count} arguments and a status"))?;
    }
    let status = words.next()?.ok_or("the status is missing")?;
    if words.next()?.is_some() {
        return Err(format!(
            "{name} has {count} arguments and a status, and nothing after it"
        ));
    }
    let request = Request::read(name, &arguments)?;
    check(&request, &arguments)?;
    Ok(Some(Line {
        name,
        request,
        answer: answer(status)?,
    }))
}

/// Rejects requests that can't be replayed.
fn check(request: &Request<'_>, arguments: &[&str]) -> Result<(), String> {
    match *request {
        Request::Read { offset, bytes, .. } | Request::Write { offset, bytes, .. } => {
            u64::of(arguments[3])?;
            // An offset above 2^62 could make the end overflow.
            if bytes as usize > MOST_BYTES_AT_ONCE || offset > 1 << 62 {
                return Err(format!(
                    "reads or writes more than {MOST_BYTES_AT_ONCE} bytes at once, or at too large an offset"
                ));
            }
        }
        Request::SetTimes { .. } => {
            let level = u64::of(arguments[1])?;
            if !BASIC_INFORMATION.contains(&level) {
                return Err(format!("level {level}: only times and attributes can be set"));
            }
        }
        _ => {}
    }
    Ok(())
}

fn answer(status: &str) -> Result<Answer, String> {
    // Statuses are given by name or number (MS-ERREF 2.3).
    match status {
        "NT_STATUS_OK" | "0x00000000" => Ok(Answer::Ok),
        "NT_STATUS_OBJECT_NAME_NOT_FOUND"
        | "NT_STATUS_OBJECT_PATH_NOT_FOUND"
        | "NT_STATUS_NO_SUCH_FILE"
        | "0xc0000034"
        | "0xc000003a"
        | "0xc000000f" => Ok(Answer::NotThere),
        _ => Err(format!(
            "status {status}: only successes and missing names can be replayed"
        )),
    }
}

/// Words between white space; quotation marks group words.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, String> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            return Ok(None);
        }
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quotation mark is missing")?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        self.rest = behind;
        Ok(Some(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(line: &str, words: &str) {
        let problem = parse(line).expect_err(line);
        assert!(problem.contains(words), "{line}: {problem}");
    }

    #[test]
    fn a_line_is_parsed_into_name_arguments_and_status() {
        let line =
            parse("NTCreateX \"\\clients\\client1\\a b.doc\" 0x40 0x1 9935 NT_STATUS_OBJECT_NAME_NOT_FOUND");
        let expected = Line {
            name: "NTCreateX",
            request: Request::Open {
                path: "\\clients\\client1\\a b.doc",
                options: 0x40,
                disposition: 1,
                handle: 9935,
            },
            answer: Answer::NotThere,
        };
        assert_eq!(line, Ok(Some(expected)));
        let line = parse("  ReadX 3 4096 512 100 0x00000000\r")
            .expect("well formed")
            .expect("an operation");
        assert_eq!(
            line.request,
            Request::Read {
                handle: 3,
                offset: 4096,
                bytes: 512
            }
        );
        assert_eq!(parse("   "), Ok(None));
        assert_eq!(parse("# remark"), Ok(None));
    }

    #[test]
    fn each_error_in_a_line_is_described() {
        check_refused(
            "Copy \"a\" \"b\" NT_STATUS_OK",
            "\"Copy\" is not an operation of load files",
        );
        check_refused("0.125 Close 3 NT_STATUS_OK", "timed load files");
        check_refused("Close 3", "status is missing");
        check_refused("Close", "1 arguments");
        check_refused("Close 3 NT_STATUS_OK 4", "nothing after it");
        check_refused("Close three NT_STATUS_OK", "\"three\" is not a number");
        check_refused("Flush -1 NT_STATUS_OK", "\"-1\" is not a number");
        check_refused("Mkdir \"a NT_STATUS_OK", "quotation mark");
        check_refused("Close 3 NT_STATUS_ACCESS_DENIED", "NT_STATUS_ACCESS_DENIED");
        check_refused("WriteX 3 0 1048577 1048577 NT_STATUS_OK", "at once");
        check_refused("SET_FILE_INFORMATION 3 1020 NT_STATUS_OK", "level 1020");
    }
}
