pub(crate) mod vectors;
