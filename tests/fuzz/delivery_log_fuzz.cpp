// Any corruption of a delivery log: the log opens, or reports that a later version wrote it; records added afterwards are present
// at the next opening, together with all previous ones.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <bub/channel/file_delivery_log.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace bub;
namespace fs = std::filesystem;

struct Content {
    std::vector<std::string> in;
    std::vector<std::string> out;
    friend bool operator==(const Content&, const Content&) = default;
};

Task<Content> content_of(DeliveryLog& log) {
    Content content;
    const std::vector<StoredInbound> unfinished = co_await log.unfinished();
    for (const StoredInbound& one : unfinished) {
        std::string text = one.id;
        for (const TurnOutput& output : one.planned) text += " " + std::to_string(output.index);
        if (one.all_sent) text += " all";
        content.in.push_back(std::move(text));
    }
    const std::vector<Delivery> unsettled = co_await log.unsettled();
    for (const Delivery& one : unsettled) content.out.push_back(one.id);
    co_return content;
}

/// Records two messages and an intended answer to the first. Returns the content of the log.
Task<Content> add_records(DeliveryLog& log) {
    Content content = co_await content_of(log);
    for (int i = 0; i < 2; ++i) {
        Envelope message;
        message.channel = "fuzz";
        std::optional<std::string> id = co_await log.receive(message);
        CUBEPI_FUZZ_CHECK(id.has_value());
        content.in.push_back(*id);
    }
    std::vector<std::string> answers{content.in.back()};
    Envelope answer;
    std::string out = co_await log.intend(std::move(answer), std::move(answers));
    content.out.push_back(std::move(out));
    const Content now = co_await content_of(log);
    CUBEPI_FUZZ_CHECK(now == content);
    co_return now;
}

/// A directory for the lifetime of the process.
const fs::path& directory() {
    static const fs::path made = [] {
        std::string name = (fs::temp_directory_path() / "cubepi-fuzz-XXXXXX").string();
        if (!mkdtemp(name.data())) std::abort();
        std::atexit([] { fs::remove_all(directory()); });
        return fs::path(name);
    }();
    return made;
}

FileDeliveryLogOptions options() {
    FileDeliveryLogOptions made;
    made.directory = directory();
    made.sync = DeliverySync::never;
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::ofstream(directory() / "deliveries.jsonl", std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    Content before;
    try {
        FileDeliveryLog log(options());
        before = cubepi::run(add_records(log));
    } catch (const cubepi::Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == cubepi::ErrorCode::schema_mismatch);
        return 0;
    }
    FileDeliveryLog again(options());
    CUBEPI_FUZZ_CHECK(cubepi::run(content_of(again)) == before);
    return 0;
}
