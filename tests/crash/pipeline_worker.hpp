#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <bub/framework.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::crash_tests {

inline constexpr const char* session_id = "cli:plan";

std::shared_ptr<bub::FileTapeStore> tapes_in(const std::filesystem::path& directory);

/// A pipeline over the tapes in `directory`, with a tool that appends a line to a file for each call.
std::unique_ptr<bub::Framework> pipeline_in(const std::filesystem::path& directory,
                                            FauxProvider& faux);

/// One turn of the session.
std::string say(bub::Framework& framework, const std::string& text);

/// The calls that took effect, in order.
std::vector<std::string> calls_made(const std::filesystem::path& directory);

/// Runs a turn with three calls in two steps. Kills itself at step `kill_at`; returns the exit status if there are fewer.
int run_pipeline_worker(const std::filesystem::path& directory, std::size_t kill_at);

/// Runs a turn whose conversation does not fit the model's window and is summarized. The turn before it is not killed.
int run_handoff_worker(const std::filesystem::path& directory, std::size_t kill_at);

}  // namespace cubepi::crash_tests
