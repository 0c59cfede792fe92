#pragma once

#include <mutex>
#include <string>

#include <bub/tape/file/tape_directory.hpp>

namespace bub::detail {

struct TapeDirectory::Writing {
    std::string name;
    TapePaths paths;
    std::shared_ptr<CachedTape> known;
    std::unique_lock<std::mutex> here;
    FileLock everywhere;
};

}  // namespace bub::detail
