//! Functions of one value.

/// Returns the function of a name.
pub fn find(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        "exp" => f64::exp,
        "sqrt" => f64::sqrt,
        "ln" => f64::ln,
        "log2" => f64::log2,
        "log10" => f64::log10,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => f64::asinh,
        "acosh" => f64::acosh,
        "atanh" => f64::atanh,
        "rad" => |degrees| degrees * std::f64::consts::PI / 180.0,
        "deg" => |radians| radians * 180.0 / std::f64::consts::PI,
        "sgn" => sign,
        _ => return None,
    })
}

/// Returns -1, 1, or the value itself if it is zero or NaN.
fn sign(value: f64) -> f64 {
    match value {
        value if value < 0.0 => -1.0,
        value if value > 0.0 => 1.0,
        value => value,
    }
}

/// Limits a value. NaN stays NaN, and a NaN limit gives NaN.
pub fn clamp(value: f64, min: f64, max: f64) -> f64 {
    if value.is_nan() || min.is_nan() || max.is_nan() {
        return f64::NAN;
    }
    value.min(max).max(min)
}

/// Rounds a value to the nearest multiple of `nearest`. A half is rounded up.
pub fn round(value: f64, nearest: f64) -> f64 {
    // The inverse is exact for 0.1 and 0.01, which are not.
    let inverse = 1.0 / nearest;
    (value * inverse + 0.5).floor() / inverse
}
