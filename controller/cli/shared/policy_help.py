"""What texts of help say of policies: importing their registry takes longer than help may take."""

POLICIES_TEXT = "'fairspine policies' lists them"
