/* Messages from peers: whatever unpacks packs again, to the same bytes each time, and within the bound on memory.  First byte:
 * which message. */
#include <stdlib.h>

#include "needle/check.h"
#include "net/grpc.h"
#include "net/pb/master.pb-c.h"
#include "net/pb/volume.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All of both schemas. */
static const ProtobufCMessageDescriptor *const types[] = {
    &master_pb__volume_information_message__descriptor, &master_pb__volume_short_information_message__descriptor,
    &master_pb__volume_ec_shard_information_message__descriptor, &master_pb__disk_tag__descriptor,
    &master_pb__max_volume_count__descriptor, &master_pb__disk_bytes__descriptor, &master_pb__heartbeat__descriptor,
    &master_pb__property__descriptor, &master_pb__storage_backend__descriptor,
    &master_pb__heartbeat_response__descriptor, &master_pb__volume_location__descriptor,
    &master_pb__cluster_node_update__descriptor, &master_pb__lock_ring_update__descriptor,
    &master_pb__keep_connected_request__descriptor, &master_pb__keep_connected_response__descriptor,
    &master_pb__location__descriptor, &master_pb__assign_request__descriptor, &master_pb__assign_response__descriptor,
    &master_pb__lookup_volume_request__descriptor, &master_pb__lookup_volume_response__descriptor,
    &master_pb__lookup_volume_response__volume_id_location__descriptor,
    &master_pb__lookup_ec_volume_request__descriptor, &master_pb__lookup_ec_volume_response__descriptor,
    &master_pb__lookup_ec_volume_response__ec_shard_id_location__descriptor,
    &master_pb__volume_grow_request__descriptor, &master_pb__volume_grow_response__descriptor,
    &master_pb__volume_mark_readonly_request__descriptor, &master_pb__volume_mark_readonly_response__descriptor,
    &master_pb__vacuum_volume_request__descriptor, &master_pb__vacuum_volume_response__descriptor,
    &master_pb__disable_vacuum_request__descriptor, &master_pb__disable_vacuum_response__descriptor,
    &master_pb__enable_vacuum_request__descriptor, &master_pb__enable_vacuum_response__descriptor,
    &master_pb__statistics_request__descriptor, &master_pb__statistics_response__descriptor,
    &master_pb__collection_list_request__descriptor, &master_pb__collection__descriptor,
    &master_pb__collection_list_response__descriptor, &master_pb__collection_delete_request__descriptor,
    &master_pb__collection_delete_response__descriptor, &master_pb__collection_statistics_request__descriptor,
    &master_pb__collection_statistics__descriptor, &master_pb__collection_statistics_response__descriptor,
    &master_pb__disk_slots__descriptor, &master_pb__disk_info__descriptor, &master_pb__disk_info_entry__descriptor,
    &master_pb__data_node_info__descriptor, &master_pb__rack_info__descriptor,
    &master_pb__data_center_info__descriptor, &master_pb__topology_info__descriptor,
    &master_pb__volume_list_request__descriptor, &master_pb__volume_list_response__descriptor,
    &master_pb__volume_list_stream_response__descriptor, &master_pb__get_master_configuration_request__descriptor,
    &master_pb__get_master_configuration_response__descriptor, &master_pb__list_cluster_nodes_request__descriptor,
    &master_pb__list_cluster_nodes_response__descriptor,
    &master_pb__list_cluster_nodes_response__cluster_node__descriptor,
    &master_pb__lease_admin_token_request__descriptor, &master_pb__lease_admin_token_response__descriptor,
    &master_pb__release_admin_token_request__descriptor, &master_pb__release_admin_token_response__descriptor,
    &master_pb__get_admin_lock_status_request__descriptor, &master_pb__get_admin_lock_status_response__descriptor,
    &master_pb__ping_request__descriptor, &master_pb__ping_response__descriptor,
    &master_pb__raft_list_cluster_servers_request__descriptor,
    &master_pb__raft_list_cluster_servers_response__descriptor,
    &master_pb__raft_list_cluster_servers_response__cluster_servers__descriptor,
    &master_pb__raft_add_server_request__descriptor, &master_pb__raft_add_server_response__descriptor,
    &master_pb__raft_remove_server_request__descriptor, &master_pb__raft_remove_server_response__descriptor,
    &master_pb__raft_leadership_transfer_request__descriptor,
    &master_pb__raft_leadership_transfer_response__descriptor,
    &volume_server_pb__volume_server_state__descriptor, &volume_server_pb__get_state_request__descriptor,
    &volume_server_pb__get_state_response__descriptor, &volume_server_pb__set_state_request__descriptor,
    &volume_server_pb__set_state_response__descriptor, &volume_server_pb__disk_status__descriptor,
    &volume_server_pb__mem_status__descriptor, &volume_server_pb__volume_server_status_request__descriptor,
    &volume_server_pb__volume_server_status_response__descriptor,
    &volume_server_pb__volume_server_leave_request__descriptor,
    &volume_server_pb__volume_server_leave_response__descriptor, &volume_server_pb__ping_request__descriptor,
    &volume_server_pb__ping_response__descriptor, &volume_server_pb__allocate_volume_request__descriptor,
    &volume_server_pb__allocate_volume_response__descriptor, &volume_server_pb__delete_collection_request__descriptor,
    &volume_server_pb__delete_collection_response__descriptor, &volume_server_pb__volume_mount_request__descriptor,
    &volume_server_pb__volume_mount_response__descriptor, &volume_server_pb__volume_unmount_request__descriptor,
    &volume_server_pb__volume_unmount_response__descriptor, &volume_server_pb__volume_delete_request__descriptor,
    &volume_server_pb__volume_delete_response__descriptor,
    &volume_server_pb__volume_mark_readonly_request__descriptor,
    &volume_server_pb__volume_mark_readonly_response__descriptor,
    &volume_server_pb__volume_mark_writable_request__descriptor,
    &volume_server_pb__volume_mark_writable_response__descriptor,
    &volume_server_pb__volume_configure_request__descriptor, &volume_server_pb__volume_configure_response__descriptor,
    &volume_server_pb__volume_status_request__descriptor, &volume_server_pb__volume_status_response__descriptor,
    &volume_server_pb__volume_sync_status_request__descriptor,
    &volume_server_pb__volume_sync_status_response__descriptor,
    &volume_server_pb__volume_consolidate_index_request__descriptor,
    &volume_server_pb__volume_consolidate_index_response__descriptor,
    &volume_server_pb__vacuum_volume_check_request__descriptor,
    &volume_server_pb__vacuum_volume_check_response__descriptor,
    &volume_server_pb__vacuum_volume_compact_request__descriptor,
    &volume_server_pb__vacuum_volume_compact_response__descriptor,
    &volume_server_pb__vacuum_volume_commit_request__descriptor,
    &volume_server_pb__vacuum_volume_commit_response__descriptor,
    &volume_server_pb__vacuum_volume_cleanup_request__descriptor,
    &volume_server_pb__vacuum_volume_cleanup_response__descriptor,
    &volume_server_pb__batch_delete_request__descriptor, &volume_server_pb__delete_result__descriptor,
    &volume_server_pb__batch_delete_response__descriptor, &volume_server_pb__read_needle_blob_request__descriptor,
    &volume_server_pb__read_needle_blob_response__descriptor, &volume_server_pb__read_needle_meta_request__descriptor,
    &volume_server_pb__read_needle_meta_response__descriptor,
    &volume_server_pb__write_needle_blob_request__descriptor,
    &volume_server_pb__write_needle_blob_response__descriptor,
    &volume_server_pb__volume_needle_status_request__descriptor,
    &volume_server_pb__volume_needle_status_response__descriptor,
    &volume_server_pb__read_all_needles_request__descriptor, &volume_server_pb__read_all_needles_response__descriptor,
    &volume_server_pb__remote_file__descriptor, &volume_server_pb__ec_shard_config__descriptor,
    &volume_server_pb__volume_info__descriptor, &volume_server_pb__read_volume_file_status_request__descriptor,
    &volume_server_pb__read_volume_file_status_response__descriptor, &volume_server_pb__copy_file_request__descriptor,
    &volume_server_pb__copy_file_response__descriptor, &volume_server_pb__receive_file_info__descriptor,
    &volume_server_pb__receive_file_request__descriptor, &volume_server_pb__receive_file_response__descriptor,
    &volume_server_pb__volume_copy_request__descriptor, &volume_server_pb__volume_copy_response__descriptor,
    &volume_server_pb__volume_incremental_copy_request__descriptor,
    &volume_server_pb__volume_incremental_copy_response__descriptor,
    &volume_server_pb__volume_tail_sender_request__descriptor,
    &volume_server_pb__volume_tail_sender_response__descriptor,
    &volume_server_pb__volume_tail_receiver_request__descriptor,
    &volume_server_pb__volume_tail_receiver_response__descriptor, &volume_server_pb__ec_shard_info__descriptor,
    &volume_server_pb__scrub_volume_request__descriptor, &volume_server_pb__scrub_volume_response__descriptor,
    &volume_server_pb__scrub_ec_volume_request__descriptor, &volume_server_pb__scrub_ec_volume_response__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % ARRAY_LEN(types)];
    ProtobufCMessage *m = grpc_unpack(type, bytes_of(data + 1, size - 1));
    if (m == NULL)
        return 0;
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *wire = malloc(n + 1);
    CHECK(wire != NULL && protobuf_c_message_pack(m, wire) == n);
    protobuf_c_message_free_unpacked(m, NULL);
    /* What we write is never refused by us, but for the bound: packing drops what was said twice, so it does not grow. */
    m = grpc_unpack(type, bytes_of(wire, n));
    if (m != NULL) {
        uint8_t *again = malloc(n + 1);
        CHECK(protobuf_c_message_get_packed_size(m) == n && protobuf_c_message_pack(m, again) == n);
        CHECK(memcmp(wire, again, n) == 0);
        protobuf_c_message_free_unpacked(m, NULL);
        free(again);
    }
    free(wire);
    return 0;
}
