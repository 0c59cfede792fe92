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

/// The updates of the platform.
inline const std::vector<std::string> updates = {"one", "two", "three", "four"};
inline std::filesystem::path delivery_directory(const std::filesystem::path& directory) {
    return directory / "deliveries";
}
/// The answers that arrived, one per line; repeated ones end with "(again)".
inline std::filesystem::path sent_file(const std::filesystem::path& directory) {
    return directory / "sent";
}
/// The updates that the platform will not deliver again, one per line.
inline std::filesystem::path confirmed_file(const std::filesystem::path& directory) {
    return directory / "confirmed";
}
std::vector<std::string> lines_of(const std::filesystem::path& file);

/// The log of the gateway in `directory`.
std::shared_ptr<bub::FileDeliveryLog> deliveries_in(const std::filesystem::path& directory);

/// Delivers `given` until they are confirmed, and shows sent messages. Sets `brought` when it has delivered all. Its name is
/// "platform", its chats are "short" and "long".
std::shared_ptr<bub::Channel> directory_channel(const std::filesystem::path& directory,
                                                bub::MessageHandler handler,
                                                std::shared_ptr<AsyncEvent> brought,
                                                std::vector<std::string> given = updates);

/// Serves until all updates have been received and processed.
Task<> serve_until_idle(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought);

struct Count {
    std::size_t held = 0;
    std::size_t again = 0;
};

/// Checks that each update was answered as `answer` defines, or is held; that no answer was repeated without a mark, and that
/// nothing else was sent. `log`: of the gateway; null: deliveries_in().
Count expect_dealt_with(const std::filesystem::path& directory,
                        const std::function<std::string(const std::string& update)>& answer,
                        std::shared_ptr<bub::DeliveryLog> log = {});

}  // namespace cubepi::crash_tests
