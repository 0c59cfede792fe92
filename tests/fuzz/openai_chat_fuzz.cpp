#include <cubepi/provider/openai/chat_api.hpp>

#include "stream_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    for (const bool accept_missing_finish : {false, true}) {
        cubepi::fuzz::check_decoder(
            bytes, [=](cubepi::MessageAssembler& assembler, cubepi::IdSource& ids) {
                return std::make_unique<cubepi::detail::OpenAIChatDecoder>(assembler, ids,
                                                                           accept_missing_finish);
            });
    }
    return 0;
}
