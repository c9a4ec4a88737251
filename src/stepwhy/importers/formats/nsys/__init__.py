"""SQLite exports of Nsight Systems (`nsys export --type sqlite`)."""
