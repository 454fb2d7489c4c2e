//! Function `printf`.

use crate::TemplateError;
use crate::datum::{Budget, Datum};
use crate::function::Function;

/// Widest column, in characters.
const WIDEST: usize = 1000;

/// Flags, width and precision between a verb and its `%`.
#[derive(Default)]
struct Verb {
    left: bool,
    plus: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
}

/// Formats like Go's `fmt.Sprintf`, with the verbs that make sense for JSON: `%v %s %q %d %x %X %o %b %t %f %e %g %c
/// %%`.
pub(crate) fn printf(
    format: &str,
    arguments: &[Datum],
    budget: &mut Budget,
) -> Result<String, TemplateError> {
    let mut text = String::new();
    let mut arguments = arguments.iter();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            budget.push(&mut text, letter.encode_utf8(&mut [0; 4]))?;
            continue;
        }
        let mut verb = Verb::default();
        while let Some(flag) = letters.next_if(|flag| matches!(flag, '-' | '+' | '0' | ' ' | '#')) {
            verb.left |= flag == '-';
            verb.plus |= flag == '+';
            verb.zeros |= flag == '0';
        }
        verb.width = number(&mut letters)?.unwrap_or_default();
        if letters.next_if_eq(&'.').is_some() {
            verb.precision = Some(number(&mut letters)?.unwrap_or_default());
        }
        match letters.next() {
            Some('%') => budget.push(&mut text, "%")?,
            Some(kind) => {
                let Some(argument) = arguments.next() else {
                    budget.push(&mut text, &format!("%!{kind}(MISSING)"))?;
                    continue;
                };
                let word = verb.format(kind, argument, budget)?;
                budget.push(&mut text, &word)?;
            }
            None => budget.push(&mut text, "%!(NOVERB)")?,
        }
    }
    Ok(text)
}

fn number(letters: &mut std::iter::Peekable<std::str::Chars>) -> Result<Option<usize>, TemplateError> {
    let mut number = None;
    while let Some(digit) = letters.next_if(char::is_ascii_digit) {
        let digit = digit.to_digit(10).unwrap_or_default() as usize;
        let whole = number.unwrap_or(0_usize) * 10 + digit;
        if whole > WIDEST {
            return Err(Function::Printf.error(format!("a width of more than {WIDEST}")));
        }
        number = Some(whole);
    }
    Ok(number)
}

impl Verb {
    fn format(&self, kind: char, argument: &Datum, budget: &mut Budget) -> Result<String, TemplateError> {
        let mut word = String::new();
        match (kind, argument) {
            ('d' | 'x' | 'X' | 'o' | 'b' | 'c', Datum::Number(number)) => match number.as_i64() {
                Some(number) => word = self.whole(kind, number),
                None => budget.print(&mut word, argument)?,
            },
            ('f' | 'F' | 'e' | 'g', Datum::Number(number)) => {
                let number = number.as_f64().unwrap_or_default();
                word = match (kind, self.precision) {
                    ('e', precision) => exponential(number, precision.unwrap_or(6)),
                    ('g', None) => number.to_string(),
                    (_, precision) => format!("{number:.*}", precision.unwrap_or(6)),
                };
            }
            ('x', text) if text.as_text().is_some() => {
                for byte in text.as_text().unwrap_or_default().bytes() {
                    budget.push(&mut word, &format!("{byte:02x}"))?;
                }
            }
            ('q', text) if text.as_text().is_some() => {
                budget.push(&mut word, &quoted(text.as_text().unwrap_or_default()))?;
            }
            ('s' | 'v', text) => {
                budget.print(&mut word, text)?;
                if let Some(most) = self.precision {
                    word = word.chars().take(most).collect();
                }
            }
            ('t', Datum::Bool(_)) => budget.print(&mut word, argument)?,
            (kind, other) => {
                budget.print(&mut word, other)?;
                word = format!("%!{kind}({word})");
            }
        }
        let length = word.chars().count();
        if length >= self.width {
            return Ok(word);
        }
        let space = self.width - length;
        Ok(if self.left {
            word + &" ".repeat(space)
        } else if self.zeros && matches!(argument, Datum::Number(_)) {
            let sign = word.len() - word.trim_start_matches(['+', '-']).len();
            format!("{}{}{}", &word[..sign], "0".repeat(space), &word[sign..])
        } else {
            " ".repeat(space) + &word
        })
    }

    fn whole(&self, kind: char, number: i64) -> String {
        let sign = match number {
            ..0 => "-",
            _ if self.plus => "+",
            _ => "",
        };
        let size = number.unsigned_abs();
        match kind {
            'x' => format!("{sign}{size:x}"),
            'X' => format!("{sign}{size:X}"),
            'o' => format!("{sign}{size:o}"),
            'b' => format!("{sign}{size:b}"),
            'c' => u32::try_from(number)
                .ok()
                .and_then(char::from_u32)
                .unwrap_or('\u{fffd}')
                .to_string(),
            _ => format!("{sign}{size}"),
        }
    }
}

/// Formats with an exponent, of which Go writes the sign and at least two digits.
fn exponential(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            letter if letter.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}
