#include "base/shared_data.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>

namespace tessera {

namespace fs = std::filesystem;

std::vector<std::string> shared_data_folders() {
    std::vector<std::string> folders;
    if (const char* given = std::getenv("TESSERA_SHARE"); given && *given) folders.emplace_back(given);
    std::error_code error;
    if (const auto program = fs::read_symlink("/proc/self/exe", error); !error) {
        const auto here = program.parent_path();
        folders.push_back((here / "share" / "tessera").string());
        folders.push_back((here.parent_path() / "share" / "tessera").string());
    }
    folders.emplace_back(TESSERA_INSTALLED_SHARE);
    return folders;
}

std::string find_shared_data(std::string_view relative) {
    for (const auto& folder : shared_data_folders()) {
        std::error_code error;
        if (const auto path = fs::path(folder) / relative; fs::is_regular_file(path, error)) return path.string();
    }
    return {};
}

std::vector<std::string> list_shared_data(std::string_view folder, std::string_view ending) {
    std::set<std::string> names;
    for (const auto& base : shared_data_folders()) {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(fs::path(base) / folder, error))
            if (entry.path().extension() == ending) names.insert(entry.path().stem().string());
    }
    return {names.begin(), names.end()};
}

}  // namespace tessera
