#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include <bub/channel/delivery_log.hpp>

namespace cubepi::crash_tests {

/// The exit status of a process that found another one running.
inline constexpr int found_locked = 3;

inline std::string answer_to(const std::string& update) { return "re: " + update; }

/// A gateway that receives unconfirmed updates, answers them, and exits. Kills itself at step `kill_at`, and in every turn for
/// the update `deadly`.
int run_delivery_worker(std::shared_ptr<bub::DeliveryLog> log,
                        const std::filesystem::path& directory, std::size_t kill_at,
                        const std::string& deadly);

}  // namespace cubepi::crash_tests
