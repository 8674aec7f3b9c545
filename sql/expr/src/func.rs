//! Functions as DataFusion calls them: a name, a result type and a kernel over whole columns.
//!
//! A function is *bound* when a script is planned: its arguments have their final types, patterns are compiled and the
//! session's zone is inside. Promises: kernels see columns, never single values of SQL; a constant argument is a column
//! of one value read again and again. Leaves to others: which function a name means (`functions`).

use std::{
    any::Any,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, BinaryArray, NullBufferBuilder, PrimitiveArray, StringArray,
    },
    buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue, internal_err},
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction},
};

use crate::error::bad_row;

/// What a function does with its columns.
pub(crate) type Kernel = Arc<dyn Fn(&Columns<'_>) -> Result<ArrayRef> + Send + Sync>;

/// An expression and its type.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) data_type: DataType,
}

impl Typed {
    pub(crate) fn new(expr: Expr, data_type: DataType) -> Self {
        Self { expr, data_type }
    }

    pub(crate) fn literal(value: ScalarValue) -> Self {
        let data_type = value.data_type();
        Self { expr: Expr::Literal(value, None), data_type }
    }

    pub(crate) fn value(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// The text of a literal.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.value() {
            Some(ScalarValue::Utf8(Some(text))) => Some(text),
            _ => None,
        }
    }
}

/// What a function becomes for given arguments.
pub(crate) struct Plan {
    pub(crate) result: DataType,
    pub(crate) kernel: Kernel,
    pub(crate) fallible: bool,
    /// A new value for each row, also without arguments that vary.
    pub(crate) volatile: bool,
}

impl Plan {
    pub(crate) fn new(result: DataType, kernel: impl Fn(&Columns<'_>) -> Result<ArrayRef> + Send + Sync + 'static) -> Self {
        Self { result, kernel: Arc::new(kernel), fallible: false, volatile: false }
    }

    /// Some rows can be bad.
    pub(crate) fn fallible(mut self) -> Self {
        self.fallible = true;
        self
    }

    pub(crate) fn volatile(mut self) -> Self {
        self.volatile = true;
        self
    }

    /// The call of this function. `key` tells apart what the name and the arguments do not.
    pub(crate) fn call(self, name: &str, key: String, args: Vec<Typed>) -> Typed {
        let volatility = if self.volatile { Volatility::Volatile } else { Volatility::Immutable };
        let bound = Bound {
            name: name.to_owned(),
            key,
            result: self.result.clone(),
            fallible: self.fallible,
            signature: Signature::user_defined(volatility),
            kernel: self.kernel,
        };
        let args = args.into_iter().map(|arg| arg.expr).collect();
        Typed::new(Expr::ScalarFunction(ScalarFunction { func: Arc::new(ScalarUDF::from(bound)), args }), self.result)
    }
}

/// A function with its kernel, as DataFusion holds it.
pub(crate) struct Bound {
    name: String,
    key: String,
    result: DataType,
    pub(crate) fallible: bool,
    signature: Signature,
    kernel: Kernel,
}

impl Bound {
    /// The bound function behind `udf`, if it is one of ours.
    pub(crate) fn of(udf: &ScalarUDF) -> Option<&Self> {
        let inner: &dyn Any = udf.inner().as_ref();
        inner.downcast_ref()
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.key)
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.key == other.key && self.result == other.result
    }
}

impl Eq for Bound {}

impl Hash for Bound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, &self.key, &self.result).hash(state);
    }
}

impl ScalarUDFImpl for Bound {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let volatile = self.signature.volatility == Volatility::Volatile;
        let constant = !volatile && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let array = (self.kernel)(&Columns { args: &args.args, rows })?;
        if array.data_type() != &self.result || array.len() != rows {
            return internal_err!("{} made {} × {} instead of {rows} × {}", self.name, array.len(), array.data_type(), self.result);
        }
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The arguments of one call.
pub(crate) struct Columns<'a> {
    args: &'a [ColumnarValue],
    pub(crate) rows: usize,
}

impl Columns<'_> {
    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    /// An argument, and by how much to step in it for a row: 0 for constants.
    pub(crate) fn column(&self, index: usize) -> Result<(ArrayRef, usize)> {
        match self.args.get(index) {
            Some(ColumnarValue::Array(array)) => Ok((Arc::clone(array), 1)),
            Some(ColumnarValue::Scalar(value)) => Ok((value.to_array_of_size(1)?, 0)),
            None => internal_err!("argument {} is missing", index + 1),
        }
    }

    /// An argument as a column of all rows.
    pub(crate) fn array(&self, index: usize) -> Result<ArrayRef> {
        match self.args.get(index) {
            Some(value) => value.to_array(self.rows),
            None => internal_err!("argument {} is missing", index + 1),
        }
    }

    pub(crate) fn texts(&self, index: usize) -> Result<Texts> {
        let (array, step) = self.column(index)?;
        match array.as_string_opt::<i32>() {
            Some(array) => Ok(Texts { array: array.clone(), step }),
            None => internal_err!("argument {} is {}, not text", index + 1, array.data_type()),
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> Result<Bytes> {
        let (array, step) = self.column(index)?;
        match array.as_binary_opt::<i32>() {
            Some(array) => Ok(Bytes { array: array.clone(), step }),
            None => internal_err!("argument {} is {}, not bytes", index + 1, array.data_type()),
        }
    }

    pub(crate) fn numbers<T: ArrowPrimitiveType>(&self, index: usize) -> Result<Numbers<T>> {
        let (array, step) = self.column(index)?;
        match array.as_primitive_opt::<T>() {
            Some(array) => Ok(Numbers { array: array.clone(), step }),
            None => internal_err!("argument {} is {}, not {}", index + 1, array.data_type(), T::DATA_TYPE),
        }
    }

    pub(crate) fn booleans(&self, index: usize) -> Result<Booleans> {
        let (array, step) = self.column(index)?;
        match array.as_boolean_opt() {
            Some(array) => Ok(Booleans { array: array.clone(), step }),
            None => internal_err!("argument {} is {}, not BOOLEAN", index + 1, array.data_type()),
        }
    }
}

/// A text argument.
pub(crate) struct Texts {
    pub(crate) array: StringArray,
    step: usize,
}

impl Texts {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let index = row * self.step;
        if self.array.is_null(index) { None } else { Some(self.array.value(index)) }
    }

    /// The one value of a constant.
    pub(crate) fn constant(&self) -> Option<Option<&str>> {
        (self.step == 0).then(|| self.get(0))
    }
}

/// An argument of bytes.
pub(crate) struct Bytes {
    array: BinaryArray,
    step: usize,
}

impl Bytes {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let index = row * self.step;
        if self.array.is_null(index) { None } else { Some(self.array.value(index)) }
    }
}

/// A numeric argument.
pub(crate) struct Numbers<T: ArrowPrimitiveType> {
    array: PrimitiveArray<T>,
    step: usize,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T::Native> {
        let index = row * self.step;
        if self.array.is_null(index) { None } else { Some(self.array.value(index)) }
    }
}

/// A boolean argument.
pub(crate) struct Booleans {
    array: BooleanArray,
    step: usize,
}

impl Booleans {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<bool> {
        let index = row * self.step;
        if self.array.is_null(index) { None } else { Some(self.array.value(index)) }
    }
}

/// A text column, row by row: `write` appends a row's text and says `Some`, or says `None` for null.
pub(crate) fn collect_text(rows: usize, mut write: impl FnMut(usize, &mut String) -> Result<Option<()>>) -> Result<ArrayRef> {
    let mut text = String::new();
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0_i32);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let before = text.len();
        if write(row, &mut text)?.is_some() {
            nulls.append_non_null();
        } else {
            text.truncate(before);
            nulls.append_null();
        }
        offsets.push(end(text.len())?);
    }
    let values = Buffer::from_vec(text.into_bytes());
    Ok(Arc::new(StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), values, nulls.finish())?))
}

/// A column of bytes, as [`collect_text`].
pub(crate) fn collect_bytes(rows: usize, mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<()>>) -> Result<ArrayRef> {
    let mut bytes = Vec::new();
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0_i32);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let before = bytes.len();
        if write(row, &mut bytes)?.is_some() {
            nulls.append_non_null();
        } else {
            bytes.truncate(before);
            nulls.append_null();
        }
        offsets.push(end(bytes.len())?);
    }
    Ok(Arc::new(BinaryArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes), nulls.finish())?))
}

fn end(length: usize) -> Result<i32> {
    i32::try_from(length).map_err(|_| bad_row("texts of one batch are longer than 2 GiB together"))
}

/// A column of numbers, row by row.
pub(crate) fn collect<T: ArrowPrimitiveType>(rows: usize, mut value: impl FnMut(usize) -> Result<Option<T::Native>>) -> Result<PrimitiveArray<T>> {
    let mut values = Vec::with_capacity(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let value = value(row)?;
        nulls.append(value.is_some());
        values.push(value.unwrap_or_default());
    }
    Ok(PrimitiveArray::try_new(ScalarBuffer::from(values), nulls.finish())?)
}

/// A column of booleans, row by row.
pub(crate) fn collect_bool(rows: usize, mut value: impl FnMut(usize) -> Result<Option<bool>>) -> Result<ArrayRef> {
    let mut values = BooleanBufferBuilder::new(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for row in 0..rows {
        let value = value(row)?;
        nulls.append(value.is_some());
        values.append(value.unwrap_or_default());
    }
    let values: BooleanBuffer = values.finish();
    Ok(Arc::new(BooleanArray::new(values, nulls.finish())))
}
