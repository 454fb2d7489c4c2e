/// Why the words behind the container mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopError {
    /// An option of ps(1) that is not known here.
    #[error("unsupported ps option {0:?}: known are -e, -f, -F, -l, -j, -o FORMAT, aux and the like")]
    Option(String),
    /// A column that is not known.
    #[error("unknown column {0:?}")]
    Column(String),
    /// docker's: its clients count on that column.
    #[error("Couldn't find PID field in ps output")]
    NoPid,
}

tote_records::part!(TopError);
impl tote_records::PartError for TopError {
    fn exit_code(&self) -> u8 {
        1
    }
}
