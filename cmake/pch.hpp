// Precompiled for all libraries and programs. It only saves time: every file still includes what it uses, which
// tools/check-headers and tools/check-tidy check without it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>

// Most files of all modules use these, so a change of one compiles almost everything again in any case.
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/base_provider.hpp>
#include <cubepi/schema/json_schema.hpp>
