#include <cubepi/core/shared_string.hpp>

#include <array>

namespace cubepi {

SharedString shared_name(std::string_view text) {
    if (text.empty()) return SharedString();
    thread_local std::array<SharedString, 16> recent;
    const auto last = static_cast<unsigned char>(text.back());
    SharedString& place = recent[(text.size() * 7 + last) % recent.size()];
    if (!(place == text)) place = SharedString(text);
    return place;
}

}  // namespace cubepi
