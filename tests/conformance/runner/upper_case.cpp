#include "upper_case.hpp"

#include <climits>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <cwctype>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace conformance {

namespace {

/// Sets the thread's locale to UTF-8 during its lifetime.
class Utf8Locale {
public:
    Utf8Locale() {
        if (!own_) throw std::runtime_error("the locale C.UTF-8 is missing");
        before_ = uselocale(own_.get());
    }
    Utf8Locale(const Utf8Locale&) = delete;
    Utf8Locale& operator=(const Utf8Locale&) = delete;
    ~Utf8Locale() { uselocale(before_); }

private:
    struct Free {
        void operator()(locale_t locale) const { freelocale(locale); }
    };
    std::unique_ptr<std::remove_pointer_t<locale_t>, Free> own_{
        newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)};
    locale_t before_ = nullptr;
};

}  // namespace

std::string upper_case(const std::string& text) {
    const Utf8Locale utf8;
    std::wstring upper;
    std::mbstate_t state = {};
    for (std::size_t at = 0; at < text.size();) {
        wchar_t c = 0;
        const std::size_t length = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
        if (length > text.size()) throw std::runtime_error("a text to upper-case is not UTF-8");
        at += length == 0 ? 1 : length;
        if (c == L'ß') {
            upper += L"SS";  // the one common letter that becomes two
        } else {
            upper += static_cast<wchar_t>(std::towupper(static_cast<wint_t>(c)));
        }
    }
    std::string out;
    state = {};
    for (const wchar_t c : upper) {
        char bytes[MB_LEN_MAX];
        out.append(bytes, std::wcrtomb(bytes, c, &state));
    }
    return out;
}

}  // namespace conformance
