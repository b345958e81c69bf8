//! The reference server on threads of this process.
