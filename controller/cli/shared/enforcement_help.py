"""What texts of help say of enforcements: importing their registry takes longer than help may take."""

from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS

ENFORCEMENTS_TEXT = f"{', '.join(BUILT_IN_ENFORCEMENTS)}, or one of a plug-in"
