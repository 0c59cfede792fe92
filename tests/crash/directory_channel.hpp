#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <cubepi/core/event_signal.hpp>

// A platform in a directory, which outlives the gateways that serve it.

namespace cubepi::crash_tests {

/// What the platform has to bring.
inline const std::vector<std::string> updates = {"one", "two", "three", "four"};
inline std::filesystem::path delivery_directory(const std::filesystem::path& directory) {
    return directory / "deliveries";
}
/// The answers that arrived, one a line; those that came again end with "(again)".
inline std::filesystem::path sent_file(const std::filesystem::path& directory) {
    return directory / "sent";
}
/// The updates that the platform will not bring again, one a line.
inline std::filesystem::path confirmed_file(const std::filesystem::path& directory) {
    return directory / "confirmed";
}
std::vector<std::string> lines_of(const std::filesystem::path& file);

/// The log of the gateway in `directory`.
std::shared_ptr<bub::FileDeliveryLog> deliveries_in(const std::filesystem::path& directory);

/// Brings updates until they are confirmed, and shows what is sent. Sets `brought` when it has brought all. Its name is
/// "platform", its chats are "short" and "long".
std::shared_ptr<bub::Channel> directory_channel(const std::filesystem::path& directory,
                                                bub::MessageHandler handler,
                                                std::shared_ptr<AsyncEvent> brought);

/// Serves until all updates are in, and nothing is left to do.
Task<> serve_until_idle(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought);

struct Count {
    std::size_t held = 0;
    std::size_t again = 0;
};

/// Each update was answered as `answer` says, or is held; no answer came twice without a mark, and nothing else came.
Count expect_dealt_with(const std::filesystem::path& directory,
                        const std::function<std::string(const std::string& update)>& answer);

}  // namespace cubepi::crash_tests
