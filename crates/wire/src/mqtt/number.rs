//! Payloads that are one number or truth value.

use seiner_model::Value;

/// Returns the value of a text: a decimal number, `true` or `false`, with spaces around it.
pub(super) fn scalar(text: &[u8]) -> Result<Value<'static>, &'static str> {
    const NO_NUMBER: &str = "it is not a number, true or false";
    match text.trim_ascii() {
        b"true" => return Ok(Value::Bool(true)),
        b"false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| NO_NUMBER)?;
    // The standard library also reads names, such as `inf`.
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(NO_NUMBER);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::F64(number)),
        Ok(_) => Err("it is beyond the range of floats"),
        Err(_) => Err(NO_NUMBER),
    }
}
