#pragma once

/// Runs `rounds` coroutines with timers on an event loop of its own; returns how many completed.
int asio_library_work(int rounds);
