//! Questions that are made anew, so that a client tells a server nothing but a name and a kind of records.

use crate::message::{
    A, AAAA, HEADER, INTERNET, MOST_BY_TCP, MOST_BY_UDP, OPT, PLAIN_LIMIT, PTR, Question, RECURSION_DESIRED,
    renumbered, word,
};

/// The kinds of records that programs ask for, which are all that leave: A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, NAPTR, SVCB,
/// HTTPS and CAA. A kind is a number of 16 bits, and so a place for two letters of a secret.
const USUAL: [u16; 13] = [A, 2, 5, 6, PTR, 15, 16, AAAA, 33, 35, 64, 65, 257];

impl Question {
    /// Whether programs ask for records of this kind.
    pub(crate) fn is_usual(&self) -> bool {
        USUAL.contains(&self.kind)
    }

    /// The message by which a server is asked, with nothing of the client's but the name and the kind: letters are small, the class is that of the
    /// internet, and the server is to look further.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let takes_more = (PLAIN_LIMIT + 1..MOST_BY_TCP).contains(&self.limit);
        let mut message = vec![
            0,
            0,
            RECURSION_DESIRED,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            u8::from(takes_more),
        ];
        let name = self.section.len().saturating_sub(4);
        // A label has fewer bytes than the first letter has as a number, so its length stays.
        message.extend(self.section.iter().take(name).map(u8::to_ascii_lowercase));
        message.extend(self.kind.to_be_bytes());
        message.extend(INTERNET.to_be_bytes());
        if takes_more {
            message.push(0);
            message.extend(OPT.to_be_bytes());
            message.extend((MOST_BY_UDP as u16).to_be_bytes());
            message.extend([0; 6]);
        }
        message
    }

    /// A server's answer as the client gets it: with the number and the question that the client has sent.
    pub(crate) fn given_back(&self, mut answer: Vec<u8>) -> Vec<u8> {
        if word(&answer, 4) == Some(1)
            && let Some(section) = answer.get_mut(HEADER..HEADER + self.section.len())
        {
            section.copy_from_slice(&self.section);
        }
        renumbered(&answer, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, Transport};
    use crate::name::encoded;

    fn asked(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(encoded(name).unwrap());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(INTERNET.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Question {
        Question::parse(bytes, Transport::Udp).unwrap()
    }

    #[test]
    fn it_has_nothing_but_name_and_kind() {
        let mut written = asked("wWw.eXample", 65);
        // Another number, no recursion, any class, and what stands behind the question.
        (written[0], written[2]) = (0x77, 0);
        let class = written.len() - 1;
        written[class] = 255;
        written.extend(b"secret");
        let question = parse(&written);
        let mut expected = asked("www.example", 65);
        expected[..2].fill(0);
        assert_eq!(question.plain(), expected);
        // The client gets its own letters and class back, and no answer with other letters is taken.
        let answer = parse(&question.plain()).answer(&Answer::Addresses(Vec::new()));
        assert!(question.is_answered_by(&answer, (&question.plain(), 0)));
        assert!(!question.is_answered_by(&answer, (&written, 0)));
        let given = question.given_back(answer);
        assert_eq!((&given[..2], &given[12..]), (&written[..2], &written[12..=class]));
        assert_eq!(question.given_back(vec![0; 12]).len(), 12);
        assert!(
            question.is_usual()
                && !parse(&asked("www", 65280)).is_usual()
                && !parse(&asked("www", 255)).is_usual()
        );
    }
}
