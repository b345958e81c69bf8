//! Integration tests of the S3 client.

mod hostile;
mod scripted;
mod vectors;
