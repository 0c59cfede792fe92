#include <cubepi/tracing/otlp/gzip.hpp>

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace cubepi::detail {

namespace {

struct Deflater {
    Deflater() {
        constexpr int gzip_header = 16;
        if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip_header, 8,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc();
        }
    }
    ~Deflater() { deflateEnd(&stream); }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    z_stream stream{};
};

}  // namespace

std::string gzip(std::string_view bytes) {
    Deflater deflater;
    z_stream& stream = deflater.stream;
    std::string out;
    for (int result = Z_OK; result != Z_STREAM_END;) {
        if (stream.avail_in == 0) {
            const auto size = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
            // zlib does not write to its input.
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
            stream.avail_in = static_cast<uInt>(size);
            bytes.remove_prefix(size);
        }
        constexpr std::size_t step = 64 * 1024;
        const std::size_t before = out.size();
        out.resize(before + step);
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
        stream.avail_out = step;
        result = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        out.resize(out.size() - stream.avail_out);
        if (result == Z_STREAM_ERROR) throw std::bad_alloc();
    }
    return out;
}

}  // namespace cubepi::detail
