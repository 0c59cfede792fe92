#include <cubepi/provider/gemini/generate_api.hpp>

#include "stream_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    cubepi::fuzz::check_decoder(
        bytes, [](cubepi::MessageAssembler& assembler, cubepi::IdSource& ids) {
            return std::make_unique<cubepi::detail::GeminiDecoder>(assembler, ids);
        });
    return 0;
}
