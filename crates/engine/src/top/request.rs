//! Columns to show: options of ps(1), or podman's names of columns.

use super::column::{self, Column};
use super::error::TopError;

/// Columns with their titles.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) columns: Vec<(&'static Column, String)>,
    /// Whether they are podman's, which count as the container does.
    pub(crate) inside: bool,
}

/// `ps -f` and its like, as docker shows them.
const FULL: &str = "uid,pid,ppid,c,stime,tty,time,cmd";
const EXTRA_FULL: &str = "uid,pid,ppid,c,sz,rss,psr,stime,tty,time,cmd";
const LONG: &str = "s,uidn,pid,ppid,c,pri,ni,sz,wchan,tty,time,ucmd";
const JOBS: &str = "pid,pgid,sid,tty,time,ucmd";
const PLAIN: &str = "pid,tty,time,ucmd";
const BSD_USER: &str = "user,pid,%cpu,%mem,vsz,rss,tty,stat,start,bsdtime,command";
const BSD_JOBS: &str = "ppid,pid,pgid,sid,tty,stat,uidn,bsdtime,command";
const BSD_LONG: &str = "uidn,pid,ppid,pri,ni,vsz,rss,wchan,stat,tty,bsdtime,command";
const BSD_PLAIN: &str = "pid,tty,stat,bsdtime,command";

impl Request {
    /// # Errors
    /// [`TopError`].
    pub(crate) fn parse(words: &[String]) -> Result<Self, TopError> {
        if words.is_empty() {
            return Self::ps(&["-ef".to_owned()]);
        }
        let names = || {
            words
                .iter()
                .flat_map(|word| word.split(','))
                .filter(|name| !name.is_empty())
        };
        if names().clone().all(|name| column::podman(name).is_some()) {
            let columns = names().filter_map(column::podman);
            return Ok(Self {
                columns: columns.map(|column| (column, column.title.to_owned())).collect(),
                inside: true,
            });
        }
        Self::ps(words)
    }

    fn ps(words: &[String]) -> Result<Self, TopError> {
        let mut format = None;
        let mut columns = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let bsd = !word.starts_with('-');
            let letters = word.strip_prefix('-').unwrap_or(word);
            if letters == "-forest" || letters == "-no-headers" {
                return Err(TopError::Option(word.clone()));
            }
            for (at, letter) in letters.char_indices() {
                let own = match (letter, bsd) {
                    ('e' | 'A' | 'w', false) | ('a' | 'x' | 'w' | 'e' | 'f' | 'g', true) => continue,
                    ('f', false) => FULL,
                    ('F', false) => EXTRA_FULL,
                    ('l', false) => LONG,
                    ('j', false) => JOBS,
                    ('u', true) => BSD_USER,
                    ('j', true) => BSD_JOBS,
                    ('l', true) => BSD_LONG,
                    ('o', _) => {
                        let rest = &letters[at + 1..];
                        let text = if rest.is_empty() {
                            words.next().map(String::as_str)
                        } else {
                            Some(rest)
                        };
                        add(&mut columns, text.ok_or_else(|| TopError::Option(word.clone()))?)?;
                        break;
                    }
                    _ => return Err(TopError::Option(word.clone())),
                };
                format = Some(own);
            }
            if format.is_none() && bsd && columns.is_empty() {
                format = Some(BSD_PLAIN);
            }
        }
        if columns.is_empty() {
            add(&mut columns, format.unwrap_or(PLAIN))?;
        }
        if !columns.iter().any(|(_, title)| title == "PID") {
            return Err(TopError::NoPid);
        }
        Ok(Self {
            columns,
            inside: false,
        })
    }
}

/// Takes `pid,cmd=COMMAND`; a title goes to the end of the text.
fn add(columns: &mut Vec<(&'static Column, String)>, text: &str) -> Result<(), TopError> {
    let (names, title) = text
        .split_once('=')
        .map_or((text, None), |(names, title)| (names, Some(title)));
    let names: Vec<&str> = names.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    for (at, name) in names.iter().enumerate() {
        let column = column::ps(name).ok_or_else(|| TopError::Column((*name).to_owned()))?;
        let own = title.filter(|_| at + 1 == names.len()).unwrap_or(column.title);
        columns.push((column, own.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(words: &[&str]) -> Result<String, TopError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let request = Request::parse(&words)?;
        let titles: Vec<String> = request.columns.into_iter().map(|(_, title)| title).collect();
        Ok(titles.join(" "))
    }

    #[test]
    fn as_ps_understands_them() {
        for (words, expected) in [
            (&[][..], "UID PID PPID C STIME TTY TIME CMD"),
            (&["-ef"], "UID PID PPID C STIME TTY TIME CMD"),
            (&["-e"], "PID TTY TIME CMD"),
            (&["aux"], "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
            (&["ax"], "PID TTY STAT TIME COMMAND"),
            (&["-eo", "pid,comm"], "PID COMMAND"),
            (&["-o", "pid,args=WHAT"], "PID WHAT"),
            (&["-opid", "-o", "rss"], "PID RSS"),
            (&["o", "pid"], "PID"),
            (&["-l"], "S UID PID PPID C PRI NI SZ WCHAN TTY TIME CMD"),
            (&["pid", "huser", "args"], "PID HUSER COMMAND"),
            (&["pid,hpid"], "PID HPID"),
        ] {
            assert_eq!(titles(words).as_deref(), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn what_means_nothing() {
        assert_eq!(titles(&["-Z"]), Err(TopError::Option("-Z".to_owned())));
        assert_eq!(titles(&["-o"]), Err(TopError::Option("-o".to_owned())));
        assert_eq!(titles(&["-o", "nope"]), Err(TopError::Column("nope".to_owned())));
        assert_eq!(titles(&["-o", "comm"]), Err(TopError::NoPid));
        assert_eq!(titles(&["hello"]), Err(TopError::Option("hello".to_owned())));
        assert!(titles(&["é"]).is_err() && titles(&["--"]).is_err());
    }
}
