// Found before the system's <vulkan/vulkan.hpp> when that is older than 1.3.275 (Debian 12 has 1.3.239).
//
// ggml-vulkan.cpp names three vk::LayerSetting* types of VK_EXT_layer_settings in code that only runs
// when validation is asked for. Headers before 1.3.272 lack the extension, so the file would not compile.
// This adds the names (with the layout of the C structures in the Vulkan specification) and nothing else.
#pragma once
#include_next <vulkan/vulkan.hpp>

#include <vector>

#if VK_HEADER_VERSION < 272
namespace vk {

enum class LayerSettingTypeEXT { eBool32 = 0 };

struct LayerSettingEXT {
    const char *pLayerName = nullptr;
    const char *pSettingName = nullptr;
    LayerSettingTypeEXT type = LayerSettingTypeEXT::eBool32;
    uint32_t valueCount = 0;
    const void *pValues = nullptr;
};

struct LayerSettingsCreateInfoEXT {
    VkStructureType sType = static_cast<VkStructureType>(1000496000);
    const void *pNext = nullptr;
    uint32_t settingCount = 0;
    const LayerSettingEXT *pSettings = nullptr;

    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> &settings)
        : settingCount(static_cast<uint32_t>(settings.size())), pSettings(settings.data()) {}
};

}  // namespace vk
#endif
