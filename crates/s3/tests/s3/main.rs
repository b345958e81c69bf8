//! Integration tests of the S3 client.

mod vectors;
