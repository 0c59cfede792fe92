#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "worker_process.hpp"

// Adds the writes of SQLite to the steps of worker_process.hpp: it writes pages with pwrite64. A half-written page is not tested:
// after a kill at the next step the whole page and its transaction are rolled back alike.

using cubepi::crash_tests::step;

extern "C" ssize_t pwrite64(int fd, const void* bytes, std::size_t size, off64_t offset) {
    step();
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

extern "C" ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) {
    return pwrite64(fd, bytes, size, offset);
}
