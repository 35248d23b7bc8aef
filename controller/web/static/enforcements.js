// The enforcements by name, with what selects the path of a flow. The controller serves those that it has in place of
// this module (controller/rest/pages.py).
export const ENFORCEMENTS = {};
