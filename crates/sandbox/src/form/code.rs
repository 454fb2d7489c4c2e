//! Writing and reading of single values, and the two macros by which a type gets its form from a list of its fields.

use crate::error::FormError;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::ffi::CString;
use std::sync::Arc;

/// A value with a byte form.
pub(super) trait Form: Sized {
    /// Appends the value.
    fn write<'p>(&'p self, out: &mut Writer<'p>);

    /// Reads what [`Form::write`] has appended.
    fn read(from: &mut Reader<'_>) -> Result<Self, FormError>;

    /// Reads this number of values. The list grows with the elements that are there, whatever the number is.
    fn read_list(from: &mut Reader<'_>, number: usize) -> Result<Vec<Self>, FormError> {
        let mut list = Vec::new();
        for _ in 0..number {
            list.push(Self::read(from)?);
        }
        Ok(list)
    }

    /// Makes an arbitrary value, for tests of the others.
    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self;
}

/// Bytes and descriptors of a plan that is being written.
pub(super) struct Writer<'p> {
    pub(super) bytes: Vec<u8>,
    pub(super) fds: Vec<BorrowedFd<'p>>,
}

impl Writer<'_> {
    pub(super) fn new(version: &[u8]) -> Self {
        Self {
            bytes: version.to_vec(),
            fds: Vec::new(),
        }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as u64).to_le_bytes());
    }
}

impl<'p> Writer<'p> {
    /// Appends a list.
    pub(super) fn list<T: Form>(&mut self, list: &'p [T]) {
        self.length(list.len());
        for element in list {
            element.write(self);
        }
    }
}

/// Bytes and descriptors of a plan that is being read.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    fds: std::vec::IntoIter<OwnedFd>,
    /// Number of descriptors that were taken.
    taken: u32,
}

impl<'a> Reader<'a> {
    /// Begins behind the first line.
    pub(super) fn new(bytes: &'a [u8], version: &[u8], fds: Vec<OwnedFd>) -> Result<Self, FormError> {
        if !bytes.starts_with(version) {
            return Err(FormError::Version);
        }
        Ok(Self {
            bytes,
            at: version.len(),
            fds: fds.into_iter(),
            taken: 0,
        })
    }

    /// Checks that nothing is left.
    pub(super) fn finish(mut self) -> Result<(), FormError> {
        if self.at < self.bytes.len() || self.fds.next().is_some() {
            return Err(FormError::Rest);
        }
        Ok(())
    }

    /// Returns the place of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn byte(&mut self) -> Result<u8, FormError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (array, _) = rest
            .split_first_chunk()
            .ok_or(FormError::End { at: self.bytes.len() })?;
        self.at += N;
        Ok(*array)
    }

    /// Returns the next bytes.
    pub(super) fn take(&mut self, number: usize) -> Result<&'a [u8], FormError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest
            .get(..number)
            .ok_or(FormError::End { at: self.bytes.len() })?;
        self.at += number;
        Ok(taken)
    }

    /// Reads a length of elements that have at least one byte each.
    fn length(&mut self) -> Result<usize, FormError> {
        let length = u64::read(self)?;
        let rest = self.bytes.len() - self.at;
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= rest)
            .ok_or(FormError::End { at: self.bytes.len() })
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Form for $type {
            fn write<'p>(&'p self, out: &mut Writer<'p>) {
                out.bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
                from.array().map(Self::from_le_bytes)
            }

            #[cfg(test)]
            fn any(from: &mut super::any::Any) -> Self {
                from.number() as Self
            }
        })*
    };
}

numbers!(u16, u32, u64, i32);

impl Form for u8 {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.byte(*self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.byte()
    }

    /// Reads all at once: the processor of a guest may be an emulated one.
    fn read_list(from: &mut Reader<'_>, number: usize) -> Result<Vec<Self>, FormError> {
        from.take(number).map(<[u8]>::to_vec)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        from.number() as Self
    }
}

impl Form for bool {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.byte((*self).into());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FormError::Value { at }),
        }
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        from.below(2) == 1
    }
}

impl<T: Form> Form for Option<T> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.byte(self.is_some().into());
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        bool::read(from)?.then(|| T::read(from)).transpose()
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        bool::any(from).then(|| T::any(from))
    }
}

impl<T: Form> Form for Box<T> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        T::read(from).map(Self::new)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self::new(T::any(from))
    }
}

impl<T: Form> Form for Vec<T> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.list(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let length = from.length()?;
        T::read_list(from, length)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        (0..from.below(4)).map(|_| T::any(from)).collect()
    }
}

impl<T: Form> Form for Box<[T]> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.list(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Vec::read(from).map(Vec::into_boxed_slice)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Vec::any(from).into_boxed_slice()
    }
}

impl<A: Form, B: Form> Form for (A, B) {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok((A::read(from)?, B::read(from)?))
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        (A::any(from), B::any(from))
    }
}

impl Form for String {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.length(self.len());
        out.bytes.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        Self::from_utf8(Vec::read(from)?).map_err(|_| FormError::Value { at })
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        from.text()
    }
}

impl Form for CString {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.length(self.as_bytes().len());
        out.bytes.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        Self::new(Vec::read(from)?).map_err(|_| FormError::Value { at })
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        from.c_string()
    }
}

impl Form for OwnedFd {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        let index = out.fds.len() as u32;
        out.bytes.extend_from_slice(&index.to_le_bytes());
        out.fds.push(self.as_fd());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let at = from.at();
        if u32::read(from)? != from.taken {
            return Err(FormError::Value { at });
        }
        let index = from.taken as usize;
        from.taken += 1;
        from.fds.next().ok_or(FormError::Descriptor { index })
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        from.descriptor()
    }
}

impl<T: Form> Form for Arc<T> {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        T::read(from).map(Self::new)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self::new(T::any(from))
    }
}

/// Gives a struct its form: its fields in this order.
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::form::code::Form for $type {
            fn write<'p>(&'p self, out: &mut $crate::form::code::Writer<'p>) {
                let Self { $($field),* } = self;
                $($field.write(out);)*
            }

            fn read(
                from: &mut $crate::form::code::Reader<'_>,
            ) -> Result<Self, $crate::error::FormError> {
                Ok(Self { $($field: $crate::form::code::Form::read(from)?),* })
            }

            #[cfg(test)]
            fn any(from: &mut $crate::form::any::Any) -> Self {
                Self { $($field: $crate::form::code::Form::any(from)),* }
            }
        }
    };
}

/// Gives an enum its form: the number before each variant, and then its fields. A number stays with its variant, and the
/// number of one that is gone is not used again.
macro_rules! choice {
    ($type:ty {
        $($number:literal $variant:ident $(($value:ident))? $({ $($field:ident),* $(,)? })?),* $(,)?
    }) => {
        impl $crate::form::code::Form for $type {
            fn write<'p>(&'p self, out: &mut $crate::form::code::Writer<'p>) {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),* })? => {
                        out.byte($number);
                        $($value.write(out);)?
                        $($($field.write(out);)*)?
                    })*
                }
            }

            fn read(
                from: &mut $crate::form::code::Reader<'_>,
            ) -> Result<Self, $crate::error::FormError> {
                let at = from.at();
                Ok(match from.byte()? {
                    $($number => {
                        $(let $value = $crate::form::code::Form::read(from)?;)?
                        $($(let $field = $crate::form::code::Form::read(from)?;)*)?
                        Self::$variant $(($value))? $({ $($field),* })?
                    })*
                    _ => return Err($crate::error::FormError::Value { at }),
                })
            }

            #[cfg(test)]
            fn any(from: &mut $crate::form::any::Any) -> Self {
                const NUMBERS: &[u8] = &[$($number),*];
                match NUMBERS[from.below(NUMBERS.len())] {
                    $($number => {
                        $(let $value = $crate::form::code::Form::any(from);)?
                        $($(let $field = $crate::form::code::Form::any(from);)*)?
                        Self::$variant $(($value))? $({ $($field),* })?
                    })*
                    _ => unreachable!("one of the numbers above"),
                }
            }
        }
    };
}

pub(super) use {choice, record};
