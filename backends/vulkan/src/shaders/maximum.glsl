/// The larger one; a NaN, whichever it is, stays through any number of these. What max() makes of a NaN is the driver's choice.
float larger_or_nan(float a, float b) { return is_nan(a) || b <= a ? a : b; }
